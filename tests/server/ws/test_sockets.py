"""Socket.IO as the server needs it: JSON, queues that are measured, unauthenticated clients that are disconnected."""

import asyncio
import contextlib
import json
from pathlib import Path

import aiohttp
import httpx2
import pytest
import socketio

from helpers.server.live_events import create_key, run
from helpers.server.socket_server import Sleeper, listening
from open_token.server.ws.sockets import MsgspecJson, SendQueue, SocketServer, encode_packet


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "probe", "NaN", '"\ud800"'.encode("utf-8", "surrogatepass")]
)
def test_what_is_not_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not valid JSON"):
        MsgspecJson.loads(text)


def test_json_there_and_back() -> None:
    value = {"a": [1, 2.5, None, True, "三"], "b": {"c": 2**70}}
    assert MsgspecJson.loads(MsgspecJson.dumps(value, separators=(",", ":"))) == value


def test_an_event_is_encoded_as_the_protocol_says() -> None:
    assert encode_packet("turn:end", b'{"a":1}').encode() == '42["turn:end",{"a":1}]'
    assert json.loads(
        encode_packet("x", json.dumps({"text": "三\u2028"}).encode()).encode()[2:]
    ) == [
        "x",
        {"text": "三\u2028"},
    ]


def test_a_queue_knows_how_much_it_holds() -> None:
    async def test() -> None:
        queue = SendQueue()
        packet = encode_packet("a", b"{}")
        queue.put_nowait(packet)
        await queue.put(packet)
        queue.put_nowait(None)
        assert queue.size == 2 * len(packet.encode())
        assert queue.get_nowait() is packet
        assert await queue.get() is packet
        assert queue.size == 0

    run(test())


def test_a_queue_is_emptied_a_little_at_a_time() -> None:
    async def test() -> None:
        queue = SendQueue()
        packet = encode_packet("a", b'"' + b"x" * 40_000 + b'"')
        for _ in range(5):
            queue.put_nowait(packet)
        for count in (2, 2, 1):
            await queue.get()
            for _ in range(count - 1):
                queue.get_nowait()
            with pytest.raises(asyncio.QueueEmpty):
                queue.get_nowait()
        for _ in range(5):
            queue.put_nowait(packet)
        queue.clear()
        assert (queue.size, queue.qsize()) == (0, 0)

    run(test())


def test_who_does_not_say_who_they_are_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SocketServer.__init__
    monkeypatch.setattr(
        SocketServer, "__init__", lambda self, **more: made(self, **{**more, "auth_timeout": 0.05})
    )

    async def test() -> None:
        async with listening(tmp_path) as server:
            outsider = await Sleeper.wake(server.address, "nobody")
            polls = f"{server.address}/socket.io/?EIO=4&transport=polling"
            async with httpx2.AsyncClient(timeout=30) as client:
                sid = json.loads((await client.get(polls)).text[1:])["sid"]
                await client.get(f"{polls}&sid={sid}")
                assert (await client.get(f"{polls}&sid={sid}")).status_code == 400
            with contextlib.suppress(ConnectionError):
                while await outsider.reader.read(1000):
                    pass
            server.live.server.auth_timeout = 2.0
            known = await Sleeper.wake(server.address, await create_key(server.services))
            while not server.services.connections.count():
                await asyncio.sleep(0.01)
            await asyncio.sleep(2.1)
            assert server.services.connections.count() == 1
            await known.close()
            await outsider.close()

    run(test())


def test_a_connection_that_is_cut_on_its_way_to_a_websocket_is_over(tmp_path: Path) -> None:
    """It must not go on by polling, for what waited for it is gone."""

    async def test() -> None:
        async with listening(tmp_path) as server, aiohttp.ClientSession() as client:
            place = f"{server.address}/socket.io/?EIO=4&transport="
            async with client.get(f"{place}polling") as answer:
                sid = json.loads((await answer.text())[1:])["sid"]
            async with client.ws_connect(f"{place}websocket&sid={sid}") as wire:
                await wire.send_str("2probe")
                assert await wire.receive_str() == "3probe"
                server.live.server.abort(sid)
                await wire.receive()
            async with client.get(f"{place}polling&sid={sid}") as answer:
                assert answer.status == 400

    run(test())


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"4", b"9", b"zzz", b"4\x1e\x1e4", b"42[" * 1000, b"40" + b"{" * 50]
)
def test_bodies_that_are_none_are_no_failure_of_the_server(tmp_path: Path, body: bytes) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server, httpx2.AsyncClient(timeout=30) as client:
            polls = f"{server.address}/socket.io/?EIO=4&transport=polling"
            sid = json.loads((await client.get(polls)).text[1:])["sid"]
            answer = await client.post(f"{polls}&sid={sid}", content=body)
            assert answer.status_code < 500
            for query in (
                "",
                "?EIO=3",
                "?EIO=4",
                "?EIO=4&transport=x",
                "?EIO=4&transport=polling&sid=x",
                "?EIO=4&j=x",
            ):
                assert (await client.get(f"{server.address}/socket.io/{query}")).status_code < 500

    run(test())


@pytest.mark.parametrize(
    ("cors", "origin", "status"),
    [
        ((), None, 200),
        ((), "http://own.example", 200),
        ((), "http://other.example", 400),
        (("http://other.example",), "http://other.example", 200),
        (("http://other.example",), "http://own.example", 200),
        (("http://other.example",), "http://third.example", 400),
        (("*",), "http://third.example", 200),
    ],
)
def test_pages_of_other_origins(cors: tuple[str, ...], origin: str | None, status: int) -> None:
    async def test() -> None:
        server = SocketServer(event_bytes=1000, cors=cors)
        transport = httpx2.ASGITransport(app=socketio.ASGIApp(server))
        async with httpx2.AsyncClient(transport=transport, base_url="http://own.example") as client:
            headers = {"Origin": origin} if origin else {}
            answer = await client.get("/socket.io/?EIO=4&transport=polling", headers=headers)
        assert answer.status_code == status
        assert answer.headers.get("access-control-allow-origin") == (
            origin if status == 200 else None
        )
        await server.shutdown()

    run(test())
