"""A server on a port: its start, its stop by signal, and a port that somebody else has."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from helpers.server.live_events import ANNA, create_key, create_session, run
from helpers.server.socket_server import Client, listening
from open_token.errors import OpenTokenError
from open_token.server import listener
from open_token.server.config import Limits, ServerConfig

PROGRAM = """
import asyncio, sys
from pathlib import Path
from open_token.server import listener
from open_token.server.core import runs
from open_token.server.config import ServerConfig

async def hangs(self):
    print("closing", flush=True)
    await asyncio.sleep(3600)

if sys.argv[2] == "hangs":
    runs.Runner.close = hangs
told = lambda address, key: print(address, key, flush=True)
stopping = lambda: print("stopping", flush=True)
listener.serve(ServerConfig(data=Path(sys.argv[1]), port=0), {}, told, stopping)
print("stopped", flush=True)
"""


@contextlib.contextmanager
def served(folder: Path, how: str = "well") -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    command = [sys.executable, "-c", PROGRAM, str(folder), how]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            assert process.stdout
            address, key = process.stdout.readline().split()
            yield process, address, key
        finally:
            process.kill()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_listener_starts_shows_its_key_once_and_stops_by_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with served(tmp_path) as (process, address, key):
        assert httpx2.get(f"{address}/api/version").status_code == 200
        assert key.startswith("sk-")
        answer = httpx2.get(
            f"{address}/api/sessions/none/events", headers={"Authorization": f"Bearer {key}"}
        )
        assert answer.status_code == 404
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("stopping\nstopped\n", "")
        assert process.returncode == 0
    with served(tmp_path) as (_, _, again):
        assert again == "None"


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with served(tmp_path, "hangs") as (process, _, _):
        assert process.stdout
        process.terminate()
        assert [process.stdout.readline() for _ in range(2)] == ["stopping\n", "closing\n"]
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM


def test_a_port_in_use_is_reported_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ServerConfig(data=tmp_path / "data", port=taken.getsockname()[1])
        with pytest.raises(OpenTokenError, match="in use") as caught:
            listener.serve(config, {}, lambda address, key: pytest.fail("it listens"))
        assert caught.value.code == "server.address"
        assert caught.value.help
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70000), ("no.such.host.invalid", 0), ("8.8.8.8", 0)]
)
def test_an_address_that_is_none_is_reported(tmp_path: Path, host: str, port: int) -> None:
    with pytest.raises(OpenTokenError) as caught:
        listener.serve(
            ServerConfig(data=tmp_path, host=host, port=port), {}, lambda address, key: None
        )
    assert caught.value.code == "server.address"


def test_only_a_proxy_that_is_named_is_believed(tmp_path: Path) -> None:
    """Clients behind a proxy are counted one by one; who says that they are others is counted as
    who they are."""

    async def statuses(proxies: tuple[str, ...]) -> list[int]:
        limits = Limits(requests_per_minute=1)
        config = ServerConfig(
            data=tmp_path / "-".join(("data", *proxies)), port=0, proxies=proxies, limits=limits
        )
        async with (
            listener.run_server(config, {}) as there,
            httpx2.AsyncClient(base_url=there.address) as client,
        ):
            result = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(3)]
            return [
                (await client.get("/api/version", headers=headers)).status_code
                for headers in result
            ]

    async def test() -> None:
        assert await statuses(("127.0.0.1",)) == [200, 200, 200]
        assert await statuses(()) == [200, 429, 429]

    run(test())


def test_who_is_connected_is_reported_that_it_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as there:
            await create_session(there.services)
            client = Client(there.address, await create_key(there.services))
            await client.__aenter__()
            await client.io.call(
                "session:subscribe", {"session_id": "sess_1", "event_format": "raw"}
            )
        assert (await client.first("system:notification"))["code"] == "stopping"
        await client.first("disconnect")
        assert "system:error" not in client.names()

    run(test())


def test_sockets_end_as_soon_as_a_key_is_changed_over_http(tmp_path: Path) -> None:
    """Whatever the route does, those who are connected are looked at when it is done."""

    async def test() -> None:
        async with listening(tmp_path) as there:
            looked = []
            there.services.connections.recheck = lambda: looked.append(ANNA)  # type: ignore[method-assign]
            async with httpx2.AsyncClient(base_url=there.address) as client:
                await client.get("/api/user/api-keys/")
                assert not looked
                await client.delete("/api/user/api-keys/key_1")
                assert looked

    run(test())
