"""docs/deploy does what it says: its files fit the code, and two nodes behind nginx lose nothing
while they restart."""

import asyncio
import contextlib
import ipaddress
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
import socketio

from helpers.server.deployment import DEPLOY, NODES, Node, compose, nginx, two_nodes
from helpers.server.local_services import redis_url
from helpers.server.stores import new_postgres
from open_token.cli import serve
from open_token.cli.dispatch import build_parser
from open_token.server.cancellation import cancel_and_wait
from open_token.server.config import Limits, ServerConfig
from open_token.server.config_loader import load_config

UNIT = DEPLOY / "open-token.service"
PASSWORD = "${POSTGRES_PASSWORD:?set it}"


def config_of(command: list[str], env: dict[str, str]) -> ServerConfig:
    """What a command with an environment comes to; a flag or a name that there is not fails."""
    assert Path(command[0]).name == "open-token"
    assert command[1] == "serve"
    return load_config(vars(build_parser("serve", serve).parse_args(command[2:])), env)


def test_the_compose_file_fits_the_settings() -> None:
    services = compose()["services"]
    for name in NODES:
        config = config_of(
            ["open-token", *services[name]["command"]], services[name]["environment"]
        )
        assert (config.host, config.port, config.role) == ("0.0.0.0", 8020, "all")
        assert config.data == Path("/data/data/server")
        assert config.database == f"postgresql://opentoken:{PASSWORD}@postgres/opentoken"
        assert config.redis == "redis://redis:6379/0"
        assert services[name]["volumes"] == ["data:/data"]
        assert set(services[name]["depends_on"]) <= set(services)
        assert config.proxies == (address_of("nginx"),)


def address_of(name: str) -> str:
    return str(compose()["services"][name]["networks"]["default"]["ipv4_address"])


def test_nodes_come_back_under_the_address_that_nginx_looked_up() -> None:
    parts = compose()
    network = ipaddress.ip_network(parts["networks"]["default"]["ipam"]["config"][0]["subnet"])
    addresses = [address_of(name) for name in (*NODES, "nginx")]
    assert len(set(addresses)) == 3
    assert all(ipaddress.ip_address(address) in network for address in addresses)


def test_nginx_knows_the_nodes_of_the_compose_file_and_lets_uploads_through() -> None:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for name in NODES:
        assert text.count(f"server {name}:8020 ") == 2
    assert f"client_max_body_size {Limits().upload_bytes >> 20}m;" in text


def test_the_unit_fits_the_settings(tmp_path: Path) -> None:
    lines = [
        line.partition("=")
        for line in UNIT.read_text(encoding="utf-8").splitlines()
        if line[:1].isalpha()
    ]
    said = {name: value for name, _, value in lines}
    config = config_of(shlex.split(said["ExecStart"]), dict([said["Environment"].split("=", 1)]))
    assert config.data == Path("/var/lib") / said["StateDirectory"] / "data" / "server"
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed; the rest of the unit is as it should be")
    copy = tmp_path / UNIT.name
    copy.write_text(
        UNIT.read_text(encoding="utf-8").replace("/opt/open-token/bin/open-token", sys.executable)
    )
    done = subprocess.run(
        [analyze, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


class Talker:
    """A client that comes back by itself and goes on where it was."""

    def __init__(
        self, address: str, key: str, session_id: str, transports: list[str], source: str
    ) -> None:
        self._address, self._session_id, self._transports = address, session_id, transports
        self._key, self._source = key, source
        self.numbers: list[int] = []
        self.ways: list[str] = []
        self.ended = 0
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def talking(self) -> AsyncIterator["Talker"]:
        """Connected, from an address of its own, as a page of that very server."""
        connector = aiohttp.TCPConnector(local_addr=(self._source, 0))
        async with aiohttp.ClientSession(connector=connector) as http:
            self.io = socketio.AsyncClient(
                http_session=http, reconnection_delay=0.05, reconnection_delay_max=0.2
            )
            self.io.on("connect", self._connected)
            self.io.on("turn:events", self._heard)
            self.io.on("chat:end", self._over)
            await self.io.connect(
                self._address,
                auth={"token": self._key},
                headers={"Origin": self._address},
                transports=self._transports,
                retry=True,
            )
            try:
                yield self
            finally:
                await self.io.disconnect()

    async def _connected(self) -> None:
        self.ways.append(self.io.transport())
        after = max(self.numbers, default=0)
        wanted = {
            "session_id": self._session_id,
            "event_format": "raw",
            "after_sequence": after,
            "resume": True,
        }
        await self.io.emit("session:subscribe", wanted)

    def _heard(self, payload: Any) -> None:
        self.numbers += [item["stream_sequence"] for item in payload["events"]]
        self._news.set()

    def _over(self, payload: Any) -> None:
        self.ended += 1
        self._news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    async def say(self, message: str, name: str) -> None:
        """Send a message, again under the same name when nobody acknowledged it."""
        payload = {"session_id": self._session_id, "message": message, "client_message_id": name}
        while True:
            with contextlib.suppress(socketio.exceptions.SocketIOError):
                answer = await self.io.call("chat:send", payload, timeout=20)
                assert answer["status"] == "ok", answer
                return
            await asyncio.sleep(0.1)


class Reader:
    """A reader of the event stream, which asks again from where it was."""

    def __init__(self, client: httpx2.AsyncClient, session_id: str) -> None:
        self._client, self._url = client, f"/api/sessions/{session_id}/events"
        self.numbers: list[int] = []
        self._news = asyncio.Event()

    async def read(self) -> None:
        """Read for good."""
        while True:
            headers = {"Last-Event-ID": str(self.numbers[-1])} if self.numbers else {}
            with contextlib.suppress(httpx2.HTTPError):
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    async for line in response.aiter_lines():
                        if line.startswith("data: "):
                            self.numbers.append(json.loads(line[6:])["stream_sequence"])
                            self._news.set()
            await asyncio.sleep(0.05)

    async def until(self, number: int) -> None:
        """Wait for an event."""
        while number not in self.numbers:
            self._news.clear()
            await self._news.wait()


async def driven(address: str, key: str, nodes: list[Node]) -> None:
    """Clients of every kind session through nginx while both nodes are restarted, one after the
    other."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=60) as rest:
        session_id = (await rest.post("/api/sessions", json={"intent": "Behind nginx"})).json()[
            "session_id"
        ]
        ways = (["polling", "websocket"], ["websocket"], ["polling"])
        talkers = [
            Talker(address, key, session_id, way, f"127.{number}.0.1")
            for number, way in enumerate(ways * 2, start=1)
        ]
        reader = Reader(rest, session_id)
        reading = asyncio.create_task(reader.read())
        async with contextlib.AsyncExitStack() as stack:
            for talker in talkers:
                await stack.enter_async_context(talker.talking())
            await talkers[0].say("hello", "first")
            await everybody(talkers, lambda talker: talker.ended >= 1)
            before = [len(talker.numbers) for talker in talkers]
            await talkers[1].say("long", "second")
            for talker, count in zip(talkers, before, strict=True):
                await talker.until(
                    lambda talker=talker, count=count: len(talker.numbers) > count + 5
                )
            statuses: list[int] = []
            asking = asyncio.create_task(asked(rest, statuses))
            for node in nodes:
                await asyncio.to_thread(node.restart)
            await cancel_and_wait(asking)
            assert set(statuses) == {200}
            await talkers[2].say("again", "third")
            whole = await entries(rest, session_id, 3)
            await everybody(
                talkers, lambda talker: bool(talker.numbers) and max(talker.numbers) >= whole[-1]
            )
            await reader.until(whole[-1])
            await cancel_and_wait(reading)
        for talker in talkers:
            # The change of the session's status may follow the end of the last run.
            assert talker.numbers[: len(whole)] == whole
            assert len(talker.ways) >= 2, (
                "every node was restarted, so that every client was cut off"
            )
        assert reader.numbers[: len(whole)] == whole
        messages = (await rest.get(f"/api/sessions/{session_id}/messages")).json()
        said = [
            block["content"]
            for turn in messages
            if turn["role"] == "user"
            for block in turn["blocks"]
        ]
        assert said == ["hello", "long", "again"]


async def everybody(talkers: list[Talker], is_so: Callable[[Talker], bool]) -> None:
    for talker in talkers:
        await talker.until(lambda talker=talker: is_so(talker))  # type: ignore[misc]


async def asked(rest: httpx2.AsyncClient, statuses: list[int]) -> None:
    """Ask for something again and again."""
    while True:
        statuses.append((await rest.get("/api/sessions")).status_code)
        await asyncio.sleep(0.02)


async def entries(rest: httpx2.AsyncClient, session_id: str, runs: int) -> list[int]:
    """The numbers of the whole stream once so many runs have ended, read by somebody new."""
    numbers: list[int] = []
    ended = 0
    async with rest.stream("GET", f"/api/sessions/{session_id}/events") as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                item = json.loads(line[6:])
                numbers.append(item["stream_sequence"])
                ended += item["type"] == "chat:end"
            if ended == runs:
                break
    return numbers


@pytest.mark.full
def test_two_nodes_behind_nginx_lose_nothing_while_they_restart(tmp_path: Path) -> None:
    known = {
        "OPEN_TOKEN_HOME": str(tmp_path / "home"),
        "OPEN_TOKEN_SERVER_DATABASE": new_postgres(),
        "OPEN_TOKEN_SERVER_REDIS": redis_url(),
    }
    with two_nodes(tmp_path, known) as (nodes, key), nginx(nodes) as address:
        asyncio.run(asyncio.wait_for(driven(address, key, nodes), 300))
        assert all(node.requests() > 0 for node in nodes)
