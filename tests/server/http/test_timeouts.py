"""Connections that send nothing, or little by little, are closed; the clock is put forward by
hand."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.live_events import append_events, create_key, create_session, run
from helpers.server.live_events import opened as turn_opened
from helpers.server.socket_server import listening
from open_token.server.http.timeouts import BODY_SECONDS, HEAD_SECONDS, TimeoutProtocol

START = b"POST /api/sessions HTTP/1.1\r\nHost: here\r\n"


class Watched:
    """Every connection that a server has had, and how many bytes came over each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[TimeoutProtocol] = []
        self.bytes: dict[TimeoutProtocol, int] = {}
        monkeypatch.setattr(
            TimeoutProtocol,
            "connection_made",
            self._wrapped(TimeoutProtocol.connection_made, self._new),
        )
        monkeypatch.setattr(
            TimeoutProtocol,
            "data_received",
            self._wrapped(TimeoutProtocol.data_received, self._more),
        )

    def _wrapped(self, call: Callable[..., None], note: Callable[..., None]) -> Callable[..., None]:
        def wrapped(connection: TimeoutProtocol, given: Any) -> None:
            call(connection, given)
            note(connection, given)

        return wrapped

    def _new(self, connection: TimeoutProtocol, _: Any) -> None:
        self.made.append(connection)
        self.bytes[connection] = 0

    def _more(self, connection: TimeoutProtocol, data: bytes) -> None:
        self.bytes[connection] += len(data)

    async def came(self, number: int, sent: int) -> TimeoutProtocol:
        """A connection, once the server has had so many bytes from it."""
        while len(self.made) <= number or self.bytes[self.made[number]] < sent:
            await asyncio.sleep(0.01)
        return self.made[number]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def later(connection: TimeoutProtocol, seconds: float) -> None:
    """Look at a connection as it will be so much later."""
    connection._waiting_since -= seconds
    connection._check_timeout()


async def opened(
    address: str, sent: bytes = b""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side closes."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"G", START, START + b"X-A: " + b"a" * 1000])
def test_a_head_that_does_not_come_is_not_waited_for(
    tmp_path: Path, watched: Watched, sent: bytes
) -> None:
    async def test() -> None:
        async with (
            listening(tmp_path) as server,
            httpx2.AsyncClient(base_url=server.address) as client,
        ):
            reader, writer = await opened(server.address, sent)
            connection = await watched.came(0, len(sent))
            assert connection._timer is not None
            assert 0 < connection._timer.when() - connection._waiting_since <= HEAD_SECONDS + 1
            later(connection, HEAD_SECONDS / 4)
            assert not connection.transport.is_closing()
            assert (await client.get("/api/version")).status_code == 200
            later(connection, HEAD_SECONDS)
            assert await ended(reader) == b""
            writer.close()

    run(test())


def test_letters_one_at_a_time_win_no_time(tmp_path: Path, watched: Watched) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            reader, writer = await opened(server.address)
            since = (await watched.came(0, 0))._waiting_since
            for number, letter in enumerate(START, 1):
                writer.write(bytes([letter]))
                assert (await watched.came(0, number))._waiting_since == since
            later(watched.made[0], HEAD_SECONDS)
            assert await ended(reader) == b""
            writer.close()

    run(test())


def test_a_second_request_that_does_not_come_is_not_waited_for(
    tmp_path: Path, watched: Watched
) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            sent = b"GET /api/version HTTP/1.1\r\nHost: here\r\n\r\nGET /api"
            reader, writer = await opened(server.address, sent)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            later(await watched.came(0, len(sent)), HEAD_SECONDS)
            await ended(reader)
            writer.close()

    run(test())


def test_a_body_that_comes_to_a_halt_is_not_waited_for(tmp_path: Path, watched: Watched) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            result = f"Authorization: Bearer {await create_key(server.services)}\r\nContent-Length: 100\r\n\r\n{{"
            sent = START + b"Content-Type: application/json\r\n" + result.encode()
            reader, writer = await opened(server.address, sent)
            connection = await watched.came(0, len(sent))
            later(connection, BODY_SECONDS / 2)
            assert not connection.transport.is_closing()
            writer.write(b"x")
            later(await watched.came(0, len(sent) + 1), BODY_SECONDS / 2)
            assert not connection.transport.is_closing()
            later(connection, BODY_SECONDS / 2)
            assert await ended(reader) == b""
            writer.close()

    run(test())


def test_an_answer_that_takes_long_is_no_halt(tmp_path: Path, watched: Watched) -> None:
    """An event stream outlives both: there it is the server's turn."""

    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            url = f"{server.address}/api/sessions/sess_1/events"
            headers = {"Authorization": f"Bearer {await create_key(server.services)}"}
            async with (
                httpx2.AsyncClient(timeout=60) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                later(watched.made[0], HEAD_SECONDS + BODY_SECONDS)
                await append_events(server.services, turn_opened())
                async for line in response.aiter_lines():
                    if "turn:start" in line:
                        return
            raise AssertionError("the stream broke off")

    run(test())


def test_so_many_silent_ones_of_one_address(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeoutProtocol, "max_idle", 3)

    async def test() -> None:
        async with listening(tmp_path) as server:
            there = [await opened(server.address, b"G") for _ in range(3)]
            await watched.came(2, 1)
            more = await opened(server.address, b"G")
            assert await ended(more[0]) == b""
            there[0][1].close()
            while sum(TimeoutProtocol._idle_by_address.values()) > 2:
                await asyncio.sleep(0.01)
            async with httpx2.AsyncClient(base_url=server.address) as client:
                assert (await client.get("/api/version")).status_code == 200
            for _, writer in [*there, more]:
                writer.close()

    run(test())
