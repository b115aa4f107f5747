"""A live client in as few steps as it takes, so that many of them fit into one process beside the
server they watch."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import msgspec

from open_token.model.log_events import Json

_NUMBERS = re.compile(rb'"stream_sequence":(\d+)\}(?:,\{|\])')
_TEXT, _PING, _PONG = 1, 9, 10
_END = b'"type":"chat:end"'
_HELLO = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: soak\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class MinimalSocketClient(asyncio.Protocol):
    """Connects, asks, and notes the numbers of the events that come."""

    def __init__(
        self, token: str, result: Callable[["MinimalSocketClient", list[int]], None]
    ) -> None:
        self._token, self._told = token, result
        self._data, self._is_open = b"", False
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self.errors: list[str] = []
        self.is_lost = False
        self.ends = 0
        """How many runs it saw end."""
        self.moved = asyncio.Event()
        self.there: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, name: str, payload: Json, seconds: float = 60) -> Json:
        """Send an event and wait for its answer."""
        number = len(self._asked) and max(self._asked) + 1
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send(f"42{number}{msgspec.json.encode([name, payload]).decode()}")
        try:
            async with asyncio.timeout(seconds):
                return await answer
        finally:
            self._asked.pop(number, None)

    def close(self) -> None:
        """Go."""
        self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(_HELLO)

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_lost = True
        self.moved.set()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the socket was lost"))

    def data_received(self, data: bytes) -> None:
        data = self._data + data
        if not self._is_open:
            _, end, data = data.partition(b"\r\n\r\n")
            self._is_open = bool(end)
        place = 0
        while (length := len(data) - place) >= 2:
            size, head = data[place + 1], 2
            if size >= 126:
                head = 4 if size == 126 else 10
                if length < head:
                    break
                size = int.from_bytes(data[place + 2 : place + head], "big")
            if length < head + size:
                break
            body = data[place + head : place + head + size]
            if (kind := data[place] & 15) == _PING:
                self._frame(_PONG, body)
            elif kind == _TEXT:
                self._take(body)
            place += head + size
        self._data = data[place:]

    def _send(self, text: str) -> None:
        self._frame(_TEXT, text.encode())

    def _frame(self, kind: int, data: bytes) -> None:
        length = (
            bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        )
        self._transport.write(bytes([0x80 | kind]) + length + bytes(4) + data)

    def _take(self, frame: bytes) -> None:
        if frame.startswith(b'42["turn:events"'):
            self._told(self, [int(number) for number in _NUMBERS.findall(frame)])
            if _END in frame:
                self.ends += 1
                self.moved.set()
        elif frame == b"2":
            self._send("3")
        elif frame.startswith(b"43"):
            number, _, words = frame[2:].partition(b"[")
            answer = self._asked.get(int(number))
            if answer is not None and not answer.done():
                answer.set_result(msgspec.json.decode(b"[" + words)[0])
        elif frame.startswith(b"0"):
            self._send("40" + msgspec.json.encode({"token": self._token}).decode())
        elif frame.startswith(b"40"):
            self.there.set_result(None)
        elif not frame.startswith(b'42["chat:end"'):
            self.errors.append(frame[:200].decode(errors="replace"))
