"""The log as server-sent events: from an id on, kept alive, given up when a key ends or nobody
reads."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.live_events import (
    ANNA,
    AT,
    BEN,
    append_events,
    create_key,
    create_session,
    ended,
    fold_turns,
    opened,
    run,
    run_services_in,
    summarize_turns,
    word,
)
from helpers.server.reference_client import ReferenceClient
from helpers.server.socket_server import listening
from open_token.model.log_events import Json
from open_token.server.http.app import build_app
from open_token.server.ws import sse
from open_token.server.ws.frames import Frame


class Reader:
    """Reads an event stream as a browser does."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last_id = ""
        self.mirror = ReferenceClient()
        self.comments = 0

    async def item(self) -> Json | None:
        """The next item; None at the end."""
        data = ""
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.last_id = value
            elif name == "data":
                data = value
            elif line.startswith(":"):
                self.comments += 1
            elif not line and data:
                item: Json = json.loads(data)
                assert str(item["stream_sequence"]) == self.last_id
                self.mirror.hear_raw(item)
                return item
        return None

    async def until(self, sequence: int) -> list[int]:
        found: list[int] = []
        while self.mirror.seen < sequence and (item := await self.item()) is not None:
            found.append(item["stream_sequence"])
        return found


@contextlib.asynccontextmanager
async def reading(
    address: str, token: str, query: str = "", **headers: str
) -> AsyncIterator[Reader]:
    url = f"{address}/api/sessions/sess_1/events{query}"
    given = {"Authorization": f"Bearer {token}", **headers}
    async with (
        httpx2.AsyncClient(timeout=30) as client,
        client.stream("GET", url, headers=given) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Reader(response.aiter_lines())


@pytest.mark.spec("server-sent-events")
def test_the_whole_log_then_what_comes(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as there:
            await create_session(there.services)
            await append_events(
                there.services, opened(), *[word(f"{number} ") for number in range(150)]
            )
            async with reading(
                there.address, await create_key(there.services, scope="read")
            ) as reader:
                await reader.until(152)
                await append_events(
                    there.services, word("live"), ended(), ("run.started", {"run_id": "r"})
                )
                await append_events(there.services, ("run.ended", {"run_id": "r"}))
                assert await reader.until(156) == [153, 154, 155, 156]
                assert reader.mirror.ended
                assert summarize_turns(reader.mirror.branch()) == await fold_turns(there.services)

    run(test())


@pytest.mark.spec("server-sent-events")
def test_who_comes_back_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as there:
            await create_session(there.services)
            await append_events(
                there.services, opened(), *[word(f"{number} ") for number in range(10)]
            )
            token = await create_key(there.services)
            async with reading(there.address, token, "?after=5") as reader:
                assert await reader.until(12) == list(range(6, 13))
            async with reading(
                there.address, token, "?after=5", **{"Last-Event-ID": "9"}
            ) as reader:
                assert await reader.until(12) == [10, 11, 12]
            while there.services.connections.count():
                await asyncio.sleep(0)
            assert there.services.feed._channels == {}

    run(test())


def test_stream_ends_with_the_key_and_with_the_server(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as there, contextlib.AsyncExitStack() as stack:
            await create_session(there.services)
            tokens = [await create_key(there.services) for _ in range(2)]
            revoked, stopped = [
                await stack.enter_async_context(reading(there.address, token)) for token in tokens
            ]
            await revoked.until(1)
            await stopped.until(1)
            caller = await there.services.store.check_key(tokens[0], AT)
            assert caller
            await there.services.store.revoke_key(ANNA, caller.key.id, AT)
            there.services.connections.recheck()
            assert await revoked.item() is None
            await there.services.feed.close()
            assert await stopped.item() is None

    run(test())


def test_a_quiet_stream_is_kept_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_KEEP_ALIVE", 0.01)

    async def test() -> None:
        async with listening(tmp_path) as there:
            await create_session(there.services)
            async with reading(there.address, await create_key(there.services)) as reader:
                waiting = asyncio.create_task(reader.until(2))
                while reader.comments < 3:
                    await asyncio.sleep(0.01)
                await append_events(there.services, opened())
                assert await waiting == [1, 2]

    run(test())


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("sess_1", {"Authorization": ""}, 401),
        ("sess_9", {}, 404),
        ("sess_1?after=-1", {}, 422),
        ("sess_1?after=x", {}, 422),
        ("sess_1?after=99999999999999999999", {}, 422),
        ("sess_1", {"Last-Event-ID": "x"}, 422),
        ("sess_1", {"Last-Event-ID": "²"}, 422),
        ("sess_1", {"Last-Event-ID": "9" * 40}, 422),
    ],
)
def test_what_is_refused(tmp_path: Path, path: str, headers: dict[str, str], status: int) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            name, mark, query = path.partition("?")
            given = {"Authorization": f"Bearer {await create_key(services)}", **headers}
            transport = httpx2.ASGITransport(app=build_app(services))
            async with httpx2.AsyncClient(transport=transport, base_url="http://server") as client:
                sent = {key: value.encode() for key, value in given.items() if value}
                answer = await client.get(f"/api/sessions/{name}/events{mark}{query}", headers=sent)
            assert answer.status_code == status
            assert set(answer.json()) == {"detail", "code"}
            assert services.connections.count() == 0

    run(test())


def test_another_s_session_is_not_there_and_connections_are_counted(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path, connections_per_user=1) as there:
            await create_session(there.services)
            url = f"{there.address}/api/sessions/sess_1/events"
            token, other = await create_key(there.services), await create_key(there.services, BEN)
            async with httpx2.AsyncClient() as client, reading(there.address, token) as reader:
                await reader.until(1)
                for given, status in ((other, 404), (token, 429)):
                    answer = await client.get(url, headers={"Authorization": f"Bearer {given}"})
                    assert answer.status_code == status

    run(test())


def test_stream_is_in_the_openapi_document(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            route = build_app(services).openapi()["paths"]["/api/sessions/{session_id}/events"][
                "get"
            ]
            assert "text/event-stream" in route["responses"]["200"]["content"]
            assert {item["name"] for item in route["parameters"]} == {
                "session_id",
                "after",
                "last-event-id",
            }

    run(test())


def test_a_reader_that_left_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_SEND_TIMEOUT", 0.0)

    async def test() -> None:
        stream, cut = sse._Stream(1000), []
        stream.abort = lambda: cut.append(True)
        parts = stream.__aiter__()
        assert await anext(parts) == b": open\n\n"
        item = {"type": "t", "payload": {}, "stream_sequence": 1}
        stream.send(Frame("turn:events", {}, [item], [b"{}"]))
        assert await anext(parts) == b"id: 1\ndata: {}\n\n"
        await parts.aclose()  # type: ignore[attr-defined]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not cut

    run(test())


def test_a_reader_that_does_not_read_holds_no_more_than_its_share() -> None:
    async def test() -> None:
        stream, cut = sse._Stream(1000), []
        stream.abort = lambda: cut.append(True)

        def batch(number: int) -> Frame:
            item = {"type": "t", "payload": {"text": "x" * 300}, "stream_sequence": number}
            return Frame("turn:events", {}, [item], [json.dumps(item).encode()])

        parts = aiter(stream)
        assert await anext(parts) == b": open\n\n"
        for number in range(3):
            stream.send(batch(number))
        assert not cut
        for number in range(3, 100):
            stream.send(batch(number))
        assert cut == [True]
        assert stream._size < 2000
        assert [part async for part in parts] == []

    run(test())


@contextlib.asynccontextmanager
async def stuck(address: str, token: str) -> AsyncIterator[socket.socket]:
    """A connection whose reader has asked for the events and takes nothing."""
    host, port = address.removeprefix("http://").split(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        head = f"GET /api/sessions/sess_1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        client.sendall(head.encode())
        yield client


def is_open(client: socket.socket) -> bool:
    """Whether more could come, when all that came is read."""
    client.setblocking(False)
    try:
        while client.recv(1 << 20):
            pass
    except ConnectionResetError:
        return False
    except BlockingIOError:
        return True
    return False


async def gone(there: Any) -> None:
    """Wait until nobody is connected."""
    while there.services.connections.count():
        await asyncio.sleep(0)


@pytest.mark.spec("slow-clients")
def test_who_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path, pending_bytes=100_000) as there, asyncio.timeout(60):
            await create_session(there.services)
            await append_events(there.services, opened())
            async with stuck(there.address, await create_key(there.services)) as client:
                while not there.services.connections.count():
                    await asyncio.sleep(0)
                while there.services.connections.count():
                    await append_events(there.services, word("x" * 100_000))
                await gone(there)
                assert not is_open(client)

    run(test())


@pytest.mark.spec("slow-clients")
def test_who_takes_nothing_of_the_past_is_cut_off_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "_SEND_TIMEOUT", 0.05)

    async def test() -> None:
        async with listening(tmp_path, pending_bytes=100_000) as there, asyncio.timeout(60):
            await create_session(there.services)
            await append_events(there.services, opened())
            for _ in range(100):
                await append_events(there.services, word("x" * 100_000))
            async with stuck(there.address, await create_key(there.services)):
                while not there.services.connections.count():
                    await asyncio.sleep(0)
                await gone(there)

    run(test())
