"""The recording as a provider on loopback: HTTP by the standard library, bounded against rude
clients."""

import contextlib
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from open_token.errors import OpenTokenError
from open_token.replay.playing import Run, Verdict
from open_token.replay.wires import Reply, count_of, read, refused, wire_of, written

HOST = "127.0.0.1"
LARGEST = 64 << 20
"""Bytes of one request."""
CONNECTIONS = 64
SILENCE = 30.0
"""Seconds that a client may send nothing."""
LONGEST = 120.0
"""Seconds that a connection may last."""
_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Refused(Exception):
    """A request that is not even read: a status and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Endpoint(ThreadingHTTPServer):
    """A server on this machine alone; `told` hears of every request before it is answered."""

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, run: Run, port: int, told: Callable[[Verdict], None]) -> None:
        self.run = run
        self.told = told
        self.finished = threading.Event()
        """Every step was asked for, and its answer is on its way."""
        self._began: dict[socket.socket, float] = {}
        self._guard = threading.Lock()
        try:
            super().__init__((HOST, port), _Visit)
        except OSError as problem:
            raise OpenTokenError(
                f"cannot listen on port {port}: {problem.strerror}",
                help="leave --port out, and a free one is taken",
                code="replay.port",
            ) from None

    @contextlib.contextmanager
    def serving(self, look: float) -> Iterator[None]:
        """Answer in a thread of its own for as long as the block lasts; `look` is how often it sees
        that it ends."""
        thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": look}, daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()
            thread.join()

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://{HOST}:{self.server_address[1]}"

    def server_bind(self) -> None:
        """Bind without asking who we are: a name server has no part in this."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Only so many at a time."""
        with self._guard:
            if len(self._began) >= CONNECTIONS:
                return False
            self._began[request] = time.monotonic()
            return True

    def shutdown_request(self, request: Any) -> None:
        """A connection ends."""
        with self._guard:
            self._began.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that last too long, whatever they do."""
        late = time.monotonic() - LONGEST
        with self._guard:
            old = [request for request, began in self._began.items() if began < late]
        for request in old:
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no matter of ours."""


class _Visit(BaseHTTPRequestHandler):
    """One request and its answer."""

    protocol_version = "HTTP/1.1"
    server_version = "open-token-replay"
    sys_version = ""
    timeout = SILENCE
    server: Endpoint

    def do_GET(self) -> None:
        """Nothing is to be had but answers."""
        self._send(Reply(404, "application/json", b'{"error":{"message":"not found"}}'))

    def do_HEAD(self) -> None:
        """Some agents look whether anybody is there."""
        self._send(Reply(200, "application/json", b""))

    def do_POST(self) -> None:
        """A question to the model."""
        try:
            self._check_host()
            verdict, reply = self._answer(self._body())
            if verdict is not None:
                self.server.told(
                    verdict
                )  # before the client can ask on: what is told is in the order of the run
        except Refused as problem:
            reply = refused(wire_of(self.path), problem.status, problem.why)
        try:
            self._send(reply)
        finally:
            if self.server.run.is_complete:
                self.server.finished.set()

    def _answer(self, body: bytes) -> tuple[Verdict | None, Reply]:
        if (count := count_of(self.path)) is not None:
            return None, Reply(200, "application/json", count)
        wire = wire_of(self.path)
        if wire is None:
            return None, Reply(200, "application/json", b"{}")
        try:
            value = msgspec.json.decode(body)
            if not isinstance(value, dict):
                raise Refused(400, "the request is no JSON object")
            asked = read(wire, value, self.path)
            verdict = self.server.run.ask(asked)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refused(400, "the request is no JSON that can be read") from None
        return verdict, written(asked, verdict.answer)

    def _check_host(self) -> None:
        """A page in a browser that renamed itself to this address must not talk to us."""
        host = self.headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        origin = self.headers.get("origin", "")
        if name.lower() not in _HOSTS or (
            origin and origin.partition("://")[2].rpartition(":")[0] not in _HOSTS
        ):
            raise Refused(403, "only this machine may ask")

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            data = self._chunks()
        else:
            length = self.headers.get("content-length") or "0"
            if not (length.isascii() and length.isdecimal() and len(length) < 12):
                raise Refused(400, "the content-length is no number")
            data = self._read(int(length))
        coding = self.headers.get("content-encoding", "identity").lower()
        if coding == "gzip":
            return _unpacked(data)
        if coding != "identity":
            raise Refused(415, "send it plain or with gzip")
        return data

    def _read(self, length: int) -> bytes:
        if length > LARGEST:
            raise Refused(413, f"a request has at most {LARGEST:,} bytes")
        data = self.rfile.read(length)
        if len(data) < length:
            raise Refused(400, "the request broke off")
        return data

    def _chunks(self) -> bytes:
        found = bytearray()
        while True:
            try:
                length = int(self.rfile.readline(64).partition(b";")[0], 16)
            except ValueError:
                raise Refused(400, "a chunk has no length") from None
            if length < 0 or len(found) + length > LARGEST:
                raise Refused(413, f"a request has at most {LARGEST:,} bytes")
            found += self._read(length)
            self.rfile.readline(64)
            if not length:
                return bytes(found)

    def _send(self, reply: Reply) -> None:
        """Every connection ends with its answer: none is left to wait on."""
        self.close_connection = True
        self.send_response(reply.status)
        self.send_header("content-type", reply.kind)
        if reply.kind != "text/event-stream":
            self.send_header("content-length", str(len(reply.body)))
        self.send_header("cache-control", "no-store")
        self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged but what the run tells."""


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        found = unpacker.decompress(data, LARGEST + 1)
    except zlib.error:
        raise Refused(400, "the request is no gzip data") from None
    if len(found) > LARGEST:
        raise Refused(413, f"a request has at most {LARGEST:,} bytes")
    return found
