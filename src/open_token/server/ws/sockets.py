"""The Socket.IO server: fast JSON, bounded send queues, abortable connections, strict packets.

Everything that depends on internals of python-socketio and python-engineio is in this module."""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

import engineio
import msgspec
import socketio
from engineio.async_drivers import asgi

from open_token.server.errors import ApiError, bad_request, log_exception
from open_token.server.limits import client_key

_MESSAGE = engineio.packet.MESSAGE
_ENGINEIO_PACKET_TYPES = tuple("123456")
_SOCKETIO_EVENT = "2"
_SOCKETIO_BINARY = ("5", "6")
_MAX_BURST_BYTES = 64 << 10
_log = logging.getLogger(__name__)
# The libraries log what clients send. Their loggers are silenced; errors are logged here.
_silent_log = logging.getLogger(f"{__name__}.wire")
_silent_log.setLevel(logging.CRITICAL)


class MsgspecJson:
    """msgspec with the interface of the json module."""

    _encoder = msgspec.json.Encoder()
    _decoder = msgspec.json.Decoder()

    @classmethod
    def dumps(cls, value: Any, **_: Any) -> str:
        """Encode a value."""
        return cls._encoder.encode(value).decode()

    @classmethod
    def loads(cls, text: str | bytes, **_: Any) -> Any:
        """Decode a text; raises ValueError when it is not JSON."""
        try:
            return cls._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError("not valid JSON") from None


def encode_packet(name: str, payload: bytes) -> Any:
    """Encode an event as an Engine.IO packet, once for all receivers."""
    packet = engineio.packet.Packet(_MESSAGE)
    # Only the encoded form is set: with `data` as well, each packet would be in memory twice.
    event = f"[{MsgspecJson.dumps(name)},{payload.decode()}]"
    packet.encode_cache = f"{_MESSAGE}{_SOCKETIO_EVENT}{event}"
    return packet


def _is_origin_allowed(
    allowed: tuple[str, ...], origin: str | None, environ: dict[str, Any]
) -> bool:
    """Return whether a page may connect: its origin is this server's own, or was configured."""
    if origin in allowed:
        return True
    host = environ.get("HTTP_HOST")
    return host is not None and origin in (f"http://{host}", f"https://{host}")


class SendQueue(asyncio.Queue[Any]):
    """The unsent packets of a connection, with their total size.

    Engine.IO takes all packets out of the queue before it sends the first one. This queue hands
    them out in short bursts, so that the packets of a slow client stay where they are counted."""

    size = 0
    _burst_bytes = 0
    _is_sender_waiting = False

    async def get(self) -> Any:
        """Return the next packet and start a new burst."""
        self._burst_bytes = 0
        self._is_sender_waiting = True
        try:
            return await super().get()
        finally:
            self._is_sender_waiting = False

    def is_idle(self) -> bool:
        """Return whether everything was sent and the sender waits for more."""
        return self._is_sender_waiting and self.empty()

    def get_nowait(self) -> Any:
        """Return the next packet of this burst."""
        if self._burst_bytes > _MAX_BURST_BYTES:
            raise asyncio.QueueEmpty
        return super().get_nowait()

    def clear(self) -> None:
        """Discard all packets."""
        self._burst_bytes = 0
        while not self.empty():
            super().get_nowait()

    def _put(self, item: Any) -> None:
        self.size += _packet_size(item)
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        size = _packet_size(item)
        self.size -= size
        self._burst_bytes += size
        return item


def _packet_size(packet: Any) -> int:
    text = getattr(packet, "encode_cache", None) or getattr(packet, "data", None)
    if isinstance(text, str | bytes):
        return len(text)
    return 0


class _WebSocket(asgi.WebSocket):  # type: ignore[misc]
    """A WebSocket that can be aborted while unsent bytes are in its buffer."""

    def __init__(self, handler: Any, server: Any) -> None:
        super().__init__(handler, server)
        self._socket = handler.__self__
        self._socket.wire = self

    async def wait(self) -> Any:
        """Return the next packet; invalid ones are skipped, Engine.IO would disconnect."""
        if getattr(self._socket, "is_authenticated", False):
            self.raise_size_limit()
        while True:
            data = await super().wait()
            if isinstance(data, bytes) or data[:1] in _ENGINEIO_PACKET_TYPES:
                return data

    def write(self, text: str) -> bool:
        """Send at once without a task; False when the send buffer is not empty.

        uvicorn's `send` only awaits when its buffer is full, so one step of the coroutine
        completes it."""
        writable = getattr(self._protocol(), "writable", None)
        if not isinstance(writable, asyncio.Event) or not writable.is_set():
            return False
        sending = self.asgi_send({"type": "websocket.send", "text": text})
        try:
            sending.send(None)
        except StopIteration:
            return True
        except Exception:
            return False  # the connection is lost; the receiving task will notice
        sending.close()
        return False

    def raise_size_limit(self) -> None:
        """Accept messages up to the limit of authenticated clients."""
        connection = getattr(self._protocol(), "conn", None)
        # Older versions of websockets call the attribute `max_size`.
        for name in ("max_message_size", "max_size"):
            if hasattr(connection, name):
                setattr(connection, name, self._socket.server.max_http_buffer_size)

    def _protocol(self) -> Any:
        return getattr(self.asgi_send, "__self__", None)

    def abort(self) -> None:
        transport = getattr(self._protocol(), "transport", None)
        if transport is not None:
            transport.abort()
        else:
            asyncio.ensure_future(self.close())  # noqa: RUF006 - held by the loop until it is sent


class _EngineServer(engineio.AsyncServer):  # type: ignore[misc]
    _async: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._async = {**self._async, "websocket": _WebSocket}

    def create_queue(self, *_: Any, **__: Any) -> SendQueue:
        return SendQueue()


class SocketServer(socketio.AsyncServer):  # type: ignore[misc]
    """A Socket.IO server that survives any packet."""

    def __init__(
        self, *, event_bytes: int, cors: tuple[str, ...] = (), auth_timeout: float = 10.0
    ) -> None:
        self._event_bytes = event_bytes
        self.auth_timeout = auth_timeout
        self._unauthenticated: dict[str, set[str]] = {}
        """New connections by address, until their time to authenticate is over."""
        self.on_bad_packet: Callable[[str, ApiError], None] = lambda sid, problem: None
        """Called with what a connected client sent that is not a valid event."""
        allow_any = "*" in cors
        super().__init__(
            async_mode="asgi",
            json=MsgspecJson,
            cors_allowed_origins="*" if allow_any else functools.partial(_is_origin_allowed, cors),
            cors_credentials=False,
            # A longer message loses the connection. Up to this size the client gets an error.
            max_http_buffer_size=event_bytes * 4,
            logger=_silent_log,
            engineio_logger=_silent_log,
        )

    def _engineio_server_class(self) -> type[_EngineServer]:
        return _EngineServer

    def get_eio_sid(self, sid: str) -> str:
        """Return the Engine.IO connection of a client."""
        eio_sid: str = self.manager.eio_sid_from_sid(sid, "/")
        return eio_sid

    def get_queue(self, eio_sid: str) -> SendQueue | None:
        """Return the send queue of a connection; None when it is closed."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None or socket.closed or socket.closing:
            return None
        queue: SendQueue = socket.queue
        return queue

    def send_packet(self, eio_sid: str, packet: Any) -> None:
        """Send a packet.

        With an empty queue it is written directly to the transport: waking the sender task is
        most of the cost of a send."""
        socket = self.eio.sockets[eio_sid]
        wire: _WebSocket | None = getattr(socket, "wire", None)
        can_write = wire is not None and socket.upgraded and socket.queue.is_idle()
        if not can_write or wire is None or not wire.write(packet.encode()):
            socket.queue.put_nowait(packet)

    def abort(self, eio_sid: str) -> None:
        """Close a connection at once and discard its queue."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None:
            return
        socket.queue.clear()
        wire = getattr(socket, "wire", None)
        if wire is not None:
            wire.abort()
        # The WebSocket may be one that the client was only upgrading to. The polling connection
        # must not continue without the discarded packets.
        self.start_background_task(socket.close, False, True)

    async def disconnect_client(self, sid: str) -> None:
        """Disconnect a client; its connection is aborted if it does not close in time."""
        eio_sid = self.get_eio_sid(sid)
        await self.disconnect(sid)
        asyncio.get_running_loop().call_later(1.0, self.abort, eio_sid)

    def mark_authenticated(self, eio_sid: str) -> None:
        """Lift the size limit of unauthenticated connections."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None:
            return
        socket.is_authenticated = True
        wire = getattr(socket, "wire", None)
        if wire is not None:
            wire.raise_size_limit()

    def is_authenticated(self, eio_sid: str) -> bool:
        """Return whether a connection has authenticated."""
        return self.manager.sid_from_eio_sid(eio_sid, "/") is not None

    def count_unauthenticated(self, address: str) -> int:
        """Return how many connections of an address have not authenticated."""
        eio_sids = self._unauthenticated.get(address, set())
        return sum(
            eio_sid in self.eio.sockets and not self.is_authenticated(eio_sid)
            for eio_sid in eio_sids
        )

    async def _handle_eio_connect(self, eio_sid: str, environ: Any) -> None:
        address = client_key(environ["asgi.scope"])
        self._unauthenticated.setdefault(address, set()).add(eio_sid)
        loop = asyncio.get_running_loop()
        loop.call_later(self.auth_timeout, self._on_auth_timeout, eio_sid, address)
        await super()._handle_eio_connect(eio_sid, environ)

    async def _handle_disconnect(
        self, eio_sid: str, namespace: str | None, reason: Any = None
    ) -> None:
        await super()._handle_disconnect(eio_sid, namespace, reason)
        loop = asyncio.get_running_loop()
        loop.call_later(self.auth_timeout, self._abort_unauthenticated, eio_sid)

    def _abort_unauthenticated(self, eio_sid: str) -> None:
        if not self.is_authenticated(eio_sid):
            self.abort(eio_sid)

    def _on_auth_timeout(self, eio_sid: str, address: str) -> None:
        self._abort_unauthenticated(eio_sid)
        eio_sids = self._unauthenticated[address]
        eio_sids.discard(eio_sid)
        if not eio_sids:
            del self._unauthenticated[address]

    async def _handle_eio_disconnect(self, eio_sid: str, reason: Any) -> None:
        await super()._handle_eio_disconnect(eio_sid, reason)
        # Engine.IO would answer a late request of this client with an internal error.
        socket = self.eio.sockets.pop(eio_sid, None)
        if socket is not None:
            # Wake a polling request, which would wait for ever.
            socket.queue.put_nowait(None)

    async def _handle_eio_message(self, eio_sid: str, data: Any) -> None:
        try:
            self._check_message(data)
            await super()._handle_eio_message(eio_sid, data)
        except ApiError as problem:
            self._report(eio_sid, problem)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self._report(eio_sid, bad_request("not a Socket.IO packet", "bad_packet"))
        except Exception as problem:
            log_exception(_log, "cannot handle packet", problem)
            self._report(eio_sid, ApiError(500, "internal server error", "internal"))

    def _check_message(self, data: Any) -> None:
        if len(data) > self._event_bytes:
            raise ApiError(
                413,
                f"event exceeds {self._event_bytes} bytes; upload large files over HTTP",
                "too_large",
            )
        if isinstance(data, bytes | bytearray) or data.startswith(_SOCKETIO_BINARY):
            raise bad_request("binary events are not supported; send text", "bad_packet")

    def _report(self, eio_sid: str, problem: ApiError) -> None:
        sid = self.manager.sid_from_eio_sid(eio_sid, "/")
        if sid is not None:
            self.on_bad_packet(sid, problem)

    async def _handle_event(
        self, eio_sid: str, namespace: str | None, id: int | None, data: Any
    ) -> None:
        if not isinstance(data, list) or not data or not isinstance(data[0], str):
            raise bad_request("an event must be a list that starts with its name", "bad_packet")
        # `connect` and `disconnect` are handlers, too, but clients must not call them.
        if data[0] in self.reserved_events or data[0] not in self.handlers.get("/", {}):
            raise bad_request("unknown event", "unknown_event")
        await super()._handle_event(eio_sid, namespace, id, data)
