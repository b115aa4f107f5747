"""An HTTP server on loopback that answers as a model provider, with limits per client."""

import contextlib
import secrets
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from open_token.errors import OpenTokenError
from open_token.replay.player import ReplaySession, Verdict
from open_token.replay.protocols import (
    Reply,
    answer_token_count,
    detect_protocol,
    parse_request,
    render_refusal,
    render_response,
)

HOST = "127.0.0.1"
MAX_REQUEST_BYTES = 64 << 20
MAX_CONNECTIONS = 64
IDLE_TIMEOUT = 30.0
MAX_CONNECTION_SECONDS = 120.0
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class RefusedRequest(Exception):
    """A request that is refused with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Endpoint(ThreadingHTTPServer):
    """A server on loopback; `on_verdict` is called for every request before it is answered."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self, session: ReplaySession, port: int, on_verdict: Callable[[Verdict], None]
    ) -> None:
        self.session = session
        self.on_verdict = on_verdict
        self.finished = threading.Event()
        """Set when all steps were requested and answered."""
        self.token = secrets.token_urlsafe(24)
        """Part of the URL: every agent sends the path of its base URL, whatever key it sends, and
        other users of this machine do not know it."""
        self._started: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            super().__init__((HOST, port), _RequestHandler)
        except OSError as problem:
            raise OpenTokenError(
                f"cannot listen on port {port}: {problem.strerror}",
                help="omit --port to use a free port",
                code="replay.port",
            ) from None

    @contextlib.contextmanager
    def serving(self, poll_interval: float) -> Iterator[None]:
        """Serve in a background thread during the block."""
        thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": poll_interval}, daemon=True
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
        """The base URL, which ends with the token."""
        return f"http://{HOST}:{self.server_address[1]}/{self.token}"

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the base class."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name = HOST
        self.server_port = self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Refuse connections over the limit."""
        with self._lock:
            if len(self._started) >= MAX_CONNECTIONS:
                return False
            self._started[request] = time.monotonic()
            return True

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that ends."""
        with self._lock:
            self._started.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that last too long."""
        deadline = time.monotonic() - MAX_CONNECTION_SECONDS
        with self._lock:
            expired = [request for request, began in self._started.items() if began < deadline]
        for request in expired:
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected."""


class _RequestHandler(BaseHTTPRequestHandler):
    """Handles one request."""

    protocol_version = "HTTP/1.1"
    server_version = "open-token-replay"
    sys_version = ""
    timeout = IDLE_TIMEOUT
    server: Endpoint

    def do_GET(self) -> None:
        """Answer that nothing is found: only model requests are served."""
        self._send(Reply(404, "application/json", b'{"error":{"message":"not found"}}'))

    def do_HEAD(self) -> None:
        """Answer the availability check of some agents."""
        self._send(Reply(200, "application/json", b""))

    def do_POST(self) -> None:
        """Answer a model request."""
        try:
            self._check_host()
            self._take_token()
            verdict, reply = self._answer(self._read_body())
            if verdict is not None:
                # Before the client can send its next request: the log keeps the order.
                self.server.on_verdict(verdict)
        except RefusedRequest as problem:
            reply = render_refusal(detect_protocol(self.path), problem.status, problem.message)
        try:
            self._send(reply)
        finally:
            if self.server.session.is_complete:
                self.server.finished.set()

    def _answer(self, body: bytes) -> tuple[Verdict | None, Reply]:
        token_count = answer_token_count(self.path)
        if token_count is not None:
            return None, Reply(200, "application/json", token_count)
        protocol = detect_protocol(self.path)
        if protocol is None:
            return None, Reply(200, "application/json", b"{}")
        try:
            value = msgspec.json.decode(body)
            if not isinstance(value, dict):
                raise RefusedRequest(400, "the request is not a JSON object")
            request = parse_request(protocol, value, self.path)
            verdict = self.server.session.ask(request)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise RefusedRequest(400, "the request is not valid JSON") from None
        return verdict, render_response(request, verdict.answer)

    def _check_host(self) -> None:
        """Refuse browser pages that reach this address by DNS rebinding."""
        host, _, port = self.headers.get("host", "").rpartition(":")
        if not port.isdecimal():
            host = self.headers.get("host", "")
        is_local = host.lower() in _LOCAL_HOSTS
        origin = self.headers.get("origin", "")
        if origin:
            origin_host = origin.partition("://")[2].rpartition(":")[0]
            is_local = is_local and origin_host in _LOCAL_HOSTS
        if not is_local:
            raise RefusedRequest(403, "only local clients are allowed")

    def _take_token(self) -> None:
        """Remove the token from the path; refuse a request without it."""
        token, slash, rest = self.path.lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise RefusedRequest(403, "use the whole URL that replay printed, with its token")
        self.path = slash + rest

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            data = self._read_chunks()
        else:
            length = self.headers.get("content-length") or "0"
            if not (length.isascii() and length.isdecimal() and len(length) < 12):
                raise RefusedRequest(400, "invalid content-length")
            data = self._read_exactly(int(length))
        coding = self.headers.get("content-encoding", "identity").lower()
        if coding == "gzip":
            return _decompress(data)
        if coding != "identity":
            raise RefusedRequest(415, "unsupported content-encoding: use gzip or none")
        return data

    def _read_exactly(self, length: int) -> bytes:
        if length > MAX_REQUEST_BYTES:
            raise RefusedRequest(413, f"a request may have at most {MAX_REQUEST_BYTES:,} bytes")
        data = self.rfile.read(length)
        if len(data) < length:
            raise RefusedRequest(400, "the request is incomplete")
        return data

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            try:
                length = int(self.rfile.readline(64).partition(b";")[0], 16)
            except ValueError:
                raise RefusedRequest(400, "a chunk has no valid length") from None
            if length < 0 or len(body) + length > MAX_REQUEST_BYTES:
                raise RefusedRequest(413, f"a request may have at most {MAX_REQUEST_BYTES:,} bytes")
            body += self._read_exactly(length)
            self.rfile.readline(64)
            if not length:
                return bytes(body)

    def _send(self, reply: Reply) -> None:
        """Send a reply and close the connection."""
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
        """Log nothing: verdicts are reported by the session."""


def _decompress(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(31)
    try:
        body = decompressor.decompress(data, MAX_REQUEST_BYTES + 1)
    except zlib.error:
        raise RefusedRequest(400, "the request is not valid gzip") from None
    if len(body) > MAX_REQUEST_BYTES:
        raise RefusedRequest(413, f"a request may have at most {MAX_REQUEST_BYTES:,} bytes")
    return body
