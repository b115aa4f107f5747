"""Socket.IO as this server needs it: fast JSON, measured queues, connections that can be cut, bad
packets told.

Everything that depends on the inside of python-socketio and python-engineio stands here."""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

import engineio
import msgspec
import socketio
from engineio.async_drivers import asgi

from open_token.server.faults import log_fault
from open_token.server.limits import address_of
from open_token.server.refusals import Refused, bad

MESSAGE = engineio.packet.MESSAGE
_PACKETS = tuple("123456")
_NUMBER_OF_EVENT = "2"
_BINARY = ("5", "6")
_HELPING = 64 << 10
_log = logging.getLogger(__name__)
# The libraries log what clients send, and every mistake of theirs; ours are logged here.
_quiet = logging.getLogger(f"{__name__}.wire")
_quiet.setLevel(logging.CRITICAL)


class Json:
    """msgspec with the face of the json module."""

    _encoder = msgspec.json.Encoder()
    _decoder = msgspec.json.Decoder()

    @classmethod
    def dumps(cls, value: Any, **_: Any) -> str:
        """A value as JSON."""
        return cls._encoder.encode(value).decode()

    @classmethod
    def loads(cls, text: str | bytes, **_: Any) -> Any:
        """The value of a JSON text; ValueError when it is none."""
        try:
            return cls._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError("this is not JSON") from None


def packet_of(name: str, payload: bytes) -> Any:
    """An event with its JSON, made once for whoever gets it."""
    packet = engineio.packet.Packet(MESSAGE)
    packet.encode_cache = f"{MESSAGE}{_NUMBER_OF_EVENT}[{Json.dumps(name)},{payload.decode()}]"  # held once, not twice
    return packet


def _may_call(others: tuple[str, ...], origin: str | None, environ: dict[str, Any]) -> bool:
    """Whether a page may connect: one of this server's own, or of an origin that was named."""
    host = environ.get("HTTP_HOST")
    return origin in others or (
        host is not None and origin in (f"http://{host}", f"https://{host}")
    )


class Measured(asyncio.Queue[Any]):
    """What a socket has not taken yet, and how much that is.

    Whoever sends takes out all there is before sending the first of it; here they get a little at a
    time, so that what a slow socket has not taken stays where it is counted."""

    size = 0
    _taken = 0
    _is_waited_for = False

    async def get(self) -> Any:
        """The next packet; with it a new helping begins."""
        self._taken = 0
        self._is_waited_for = True
        try:
            return await super().get()
        finally:
            self._is_waited_for = False

    def is_idle(self) -> bool:
        """Whether everything that was in here has left, and whoever sends waits for more."""
        return self._is_waited_for and self.empty()

    def get_nowait(self) -> Any:
        """The next packet of this helping."""
        if self._taken > _HELPING:
            raise asyncio.QueueEmpty
        return super().get_nowait()

    def clear(self) -> None:
        """Let go of everything."""
        self._taken = 0
        while not self.empty():
            super().get_nowait()

    def _put(self, item: Any) -> None:
        self.size += _weight(item)
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        weight = _weight(item)
        self.size -= weight
        self._taken += weight
        return item


def _weight(packet: Any) -> int:
    text = getattr(packet, "encode_cache", None) or getattr(packet, "data", None)
    return len(text) if isinstance(text, str | bytes) else 0


class _Wire(asgi.WebSocket):  # type: ignore[misc]
    """A WebSocket that can be cut, even when the other side takes nothing and the bytes for it
    never leave."""

    def __init__(self, takes: Any, server: Any) -> None:
        super().__init__(takes, server)
        self._socket = takes.__self__
        self._socket.wire = self

    async def wait(self) -> Any:
        """The next packet; what is none of Engine.IO's would end the connection there, and is left
        out here."""
        if getattr(self._socket, "is_trusted", False):
            self.allow_long()
        while True:
            data = await super().wait()
            if isinstance(data, bytes) or data[:1] in _PACKETS:
                return data

    def write(self, text: str) -> bool:
        """Send at once, without a task; False, and nothing sent, when the other side has not taken
        what was sent."""
        writable = getattr(self._protocol(), "writable", None)
        if not isinstance(writable, asyncio.Event) or not writable.is_set():
            return False
        sending = self.asgi_send({"type": "websocket.send", "text": text})
        try:
            sending.send(None)
        except StopIteration:
            return True
        except Exception:
            return False  # the connection is lost; whoever waits for packets will see it
        sending.close()
        return False

    def allow_long(self) -> None:
        """Take messages as long as anybody's may be; strangers have to be short."""
        wire = getattr(self._protocol(), "conn", None)
        for name in ("max_message_size", "max_size"):  # as older versions of websockets call it
            if hasattr(wire, name):
                setattr(wire, name, self._socket.server.max_http_buffer_size)

    def _protocol(self) -> Any:
        return getattr(self.asgi_send, "__self__", None)

    def cut(self) -> None:
        transport = getattr(self._protocol(), "transport", None)
        if transport is not None:
            transport.abort()
        else:
            asyncio.ensure_future(self.close())  # noqa: RUF006  it keeps itself alive until the close is sent


class _Engine(engineio.AsyncServer):  # type: ignore[misc]
    _async: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._async = {**self._async, "websocket": _Wire}

    def create_queue(self, *_: Any, **__: Any) -> Measured:
        return Measured()


class Sockets(socketio.AsyncServer):  # type: ignore[misc]
    """A Socket.IO server that no packet breaks."""

    def __init__(
        self, *, event_bytes: int, cors: tuple[str, ...] = (), patience: float = 10.0
    ) -> None:
        self._event_bytes = event_bytes
        self.patience = patience
        self._strangers: dict[str, set[str]] = {}
        self.complain: Callable[[str, Refused], None] = lambda sid, problem: None
        """Told of what a connected client sent that is no event."""
        super().__init__(
            async_mode="asgi",
            json=Json,
            cors_allowed_origins="*" if "*" in cors else functools.partial(_may_call, cors),
            cors_credentials=False,
            # Beyond this the connection is lost; below it the client is told that its event is too
            # long.
            max_http_buffer_size=event_bytes * 4,
            logger=_quiet,
            engineio_logger=_quiet,
        )

    def _engineio_server_class(self) -> type[_Engine]:
        return _Engine

    def eio_of(self, sid: str) -> str:
        """The connection of a client."""
        name: str = self.manager.eio_sid_from_sid(sid, "/")
        return name

    def queue_of(self, eio_sid: str) -> Measured | None:
        """What a connection has not taken yet; None when it is closed."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None or socket.closed or socket.closing:
            return None
        queue: Measured = socket.queue
        return queue

    def pass_on(self, eio_sid: str, packet: Any) -> None:
        """Send a packet; it goes straight out when nothing is on the way, which is most of what
        sending costs."""
        socket = self.eio.sockets[eio_sid]
        wire: _Wire | None = getattr(socket, "wire", None)
        if (
            wire is None
            or not socket.upgraded
            or not socket.queue.is_idle()
            or not wire.write(packet.encode())
        ):
            socket.queue.put_nowait(packet)

    def cut(self, eio_sid: str) -> None:
        """End a connection at once, and let go of what it has not taken."""
        socket = self.eio.sockets.get(eio_sid)
        if socket is None:
            return
        socket.queue.clear()
        wire = getattr(socket, "wire", None)
        if wire is not None:
            wire.cut()
        # The wire may be one that it was only about to change to: the connection must not live on
        # without its packets.
        self.start_background_task(socket.close, False, True)

    async def dismiss(self, sid: str) -> None:
        """Tell a client that it is not wanted any more, and end its connection."""
        eio_sid = self.eio_of(sid)
        await self.disconnect(sid)
        asyncio.get_running_loop().call_later(1.0, self.cut, eio_sid)

    def trust(self, eio_sid: str) -> None:
        """A connection has said who it is: it may send more than strangers do."""
        if socket := self.eio.sockets.get(eio_sid):
            socket.is_trusted = True
            if wire := getattr(socket, "wire", None):
                wire.allow_long()

    def is_known(self, eio_sid: str) -> bool:
        """Whether a connection has said who it is."""
        return self.manager.sid_from_eio_sid(eio_sid, "/") is not None

    def strangers(self, address: str) -> int:
        """How many connections of an address have not said who they are."""
        here = self._strangers.get(address, set())
        return sum(eio_sid in self.eio.sockets and not self.is_known(eio_sid) for eio_sid in here)

    async def _handle_eio_connect(self, eio_sid: str, environ: Any) -> None:
        address = address_of(environ["asgi.scope"])
        self._strangers.setdefault(address, set()).add(eio_sid)
        asyncio.get_running_loop().call_later(self.patience, self._end_waiting, eio_sid, address)
        await super()._handle_eio_connect(eio_sid, environ)

    async def _handle_disconnect(
        self, eio_sid: str, namespace: str | None, reason: Any = None
    ) -> None:
        await super()._handle_disconnect(eio_sid, namespace, reason)
        asyncio.get_running_loop().call_later(self.patience, self._end_stranger, eio_sid)

    def _end_stranger(self, eio_sid: str) -> None:
        """Who has not said who they are by now is cut off."""
        if not self.is_known(eio_sid):
            self.cut(eio_sid)

    def _end_waiting(self, eio_sid: str, address: str) -> None:
        """The time is over that a new connection has to say who it is."""
        self._end_stranger(eio_sid)
        here = self._strangers[address]
        here.discard(eio_sid)
        if not here:
            del self._strangers[address]

    async def _handle_eio_disconnect(self, eio_sid: str, reason: Any) -> None:
        await super()._handle_eio_disconnect(eio_sid, reason)
        # Engine.IO would answer a late request of this client with an error of the server's own.
        if socket := self.eio.sockets.pop(eio_sid, None):
            socket.queue.put_nowait(
                None
            )  # a request that polls would wait on, though nothing comes

    async def _handle_eio_message(self, eio_sid: str, data: Any) -> None:
        try:
            self._inspect(data)
            await super()._handle_eio_message(eio_sid, data)
        except Refused as problem:
            self._complain(eio_sid, problem)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self._complain(eio_sid, bad("this is no packet of Socket.IO", "bad_packet"))
        except Exception as problem:
            log_fault(_log, "a packet could not be taken", problem)
            self._complain(eio_sid, Refused(500, "the server could not do this", "internal"))

    def _inspect(self, data: Any) -> None:
        if len(data) > self._event_bytes:
            raise Refused(413, f"an event may have {self._event_bytes} bytes", "too_large")
        if isinstance(data, bytes | bytearray) or data.startswith(_BINARY):
            raise bad("send text; binary events are not known here", "bad_packet")

    def _complain(self, eio_sid: str, problem: Refused) -> None:
        sid = self.manager.sid_from_eio_sid(eio_sid, "/")
        if sid is not None:
            self.complain(sid, problem)

    async def _handle_event(
        self, eio_sid: str, namespace: str | None, id: int | None, data: Any
    ) -> None:
        if not isinstance(data, list) or not data or not isinstance(data[0], str):
            raise bad("an event is a list that begins with its name", "bad_packet")
        # `connect` and `disconnect` are handlers, too, and not the client's to call
        if data[0] in self.reserved_events or data[0] not in self.handlers.get("/", {}):
            raise bad("there is no such event", "unknown_event")
        await super()._handle_event(eio_sid, namespace, id, data)
