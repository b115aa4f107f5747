"""Strangers at the door of Socket.IO: so many connections a minute and at once, and short
bodies."""

import asyncio
import json
from pathlib import Path

import aiohttp
import httpx2
import pytest

from helpers.server.live_events import create_key, create_session, run
from helpers.server.socket_server import Client, listening
from open_token.server.ws import preauth_limits

POLLS = "/socket.io/?EIO=4&transport=polling"
LONG = b"4" + b"x" * (100 << 10)


async def handshake(client: httpx2.AsyncClient) -> str:
    return str(json.loads((await client.get(POLLS)).text[1:])["sid"])


def test_so_many_new_ones_a_minute_by_both_ways(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path, requests_per_minute=2) as server:
            async with httpx2.AsyncClient(base_url=server.address) as client:
                statuses = [(await client.get(POLLS)).status_code for _ in range(3)]
                refused = await client.get(POLLS)
                assert (
                    await client.get(POLLS.replace("/?", "?"))
                ).status_code == 429  # Socket.IO takes it for the same
            assert statuses == [200, 200, 429]
            assert (refused.json()["code"], int(refused.headers["retry-after"]) > 0) == (
                "rate_limited",
                True,
            )
            async with aiohttp.ClientSession() as wires:
                with pytest.raises(aiohttp.WSServerHandshakeError) as problem:
                    await wires.ws_connect(f"{server.address}/socket.io/?EIO=4&transport=websocket")
            assert problem.value.status == 403

    run(test())


def test_unauthenticated_connections_are_limited_and_authenticated_ones_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preauth_limits, "MAX_UNAUTHENTICATED", 2)

    async def test() -> None:
        async with (
            listening(tmp_path) as server,
            httpx2.AsyncClient(base_url=server.address) as client,
        ):
            token = await create_key(server.services)
            async with (
                Client(server.address, token),
                Client(server.address, token),
                Client(server.address, token),
            ):
                sids = [await handshake(client) for _ in range(2)]
                assert (await client.get(POLLS)).status_code == 429
                server.live.server.abort(sids[0])
                while server.live.server.count_unauthenticated("address:127.0.0.1") > 1:
                    await asyncio.sleep(0.01)
                assert (await client.get(POLLS)).status_code == 200

    run(test())


def test_unauthenticated_requests_may_send_only_short_bodies(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            listening(tmp_path) as server,
            httpx2.AsyncClient(base_url=server.address, timeout=60) as client,
        ):
            await create_session(server.services)
            sid = await handshake(client)
            assert (await client.post(f"{POLLS}&sid={sid}", content=LONG)).status_code == 413
            hello = "40" + json.dumps({"token": await create_key(server.services)})
            assert (
                await client.post(f"{POLLS}&sid={sid}", content=hello.encode())
            ).status_code == 200
            while not server.live.server.is_authenticated(sid):
                await asyncio.sleep(0.01)
            assert (await client.post(f"{POLLS}&sid={sid}", content=LONG)).status_code == 200

    run(test())


def test_one_request_at_a_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            listening(tmp_path) as server,
            httpx2.AsyncClient(base_url=server.address, timeout=60) as client,
        ):
            sid = await handshake(client)
            is_there, may_go = asyncio.Event(), asyncio.Event()
            take = server.live.server.eio.sockets[sid].handle_post_request

            async def slow(environ: object) -> None:
                is_there.set()
                await may_go.wait()
                await take(environ)

            server.live.server.eio.sockets[sid].handle_post_request = slow
            first = asyncio.create_task(client.post(f"{POLLS}&sid={sid}", content=b"3"))
            await is_there.wait()
            assert (await client.post(f"{POLLS}&sid={sid}", content=b"3")).status_code == 429
            may_go.set()
            assert (await first).status_code == 200

    run(test())


def test_unauthenticated_requests_at_once_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preauth_limits, "MAX_UNAUTHENTICATED", 1)

    async def test() -> None:
        async with (
            listening(tmp_path) as server,
            httpx2.AsyncClient(base_url=server.address, timeout=60) as client,
        ):
            sid = await handshake(client)
            is_there, may_go = asyncio.Event(), asyncio.Event()

            async def slow(environ: object) -> None:
                is_there.set()
                await may_go.wait()

            server.live.server.eio.sockets[sid].handle_post_request = slow
            first = asyncio.create_task(client.post(f"{POLLS}&sid={sid}", content=b"3"))
            await is_there.wait()
            refused = await client.post(f"{POLLS}&sid=another", content=b"3")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_connections")
            may_go.set()
            assert (await first).status_code == 200
            assert (await client.post(f"{POLLS}&sid=another", content=b"3")).status_code == 400

    run(test())


def test_an_unauthenticated_websocket_is_closed_by_a_long_message(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server, aiohttp.ClientSession() as wires:
            wire = await wires.ws_connect(f"{server.address}/socket.io/?EIO=4&transport=websocket")
            assert (await wire.receive_str()).startswith("0")
            await wire.send_str(LONG.decode())
            assert (await wire.receive()).type in (
                aiohttp.WSMsgType.CLOSE,
                aiohttp.WSMsgType.CLOSED,
            )
            await wire.close()

    run(test())


@pytest.mark.parametrize("transports", [["websocket"], ["polling", "websocket"]])
def test_who_is_known_sends_long_messages(tmp_path: Path, transports: list[str]) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(
                server.address, await create_key(server.services), transports
            ) as client:
                message = {"session_id": "sess_1", "message": "x" * (900 << 10)}
                assert (await client.io.call("chat:send", message, timeout=60))["status"] == "ok"
                assert client.io.transport() == "websocket"

    run(test())
