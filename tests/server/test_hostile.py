"""A real server among hostile clients: its memory stays what it was, and others are served
meanwhile."""

import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import socketio

pytestmark = pytest.mark.full

MOST_MORE = 120 << 20
"""Bytes that the memory of the server may grow by while it is attacked; an upload may have 256
MiB."""
DOCUMENT = Path(__file__).resolve().parents[2] / "examples" / "open_token.json"
PIECE = b"x" * (1 << 20)


class Server:
    """A server process, with the peak of its memory."""

    def __init__(self, folder: Path) -> None:
        (folder / "tmp").mkdir()
        self.tmp = folder / "tmp"
        command = [
            sys.executable,
            "-m",
            "open_token",
            "serve",
            "--data",
            str(folder / "data"),
            "--port",
            "0",
            "--json",
        ]
        env = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.tmp),
            "OPEN_TOKEN_HOME": str(folder / "home"),
        }
        self.process = subprocess.Popen(
            [*command, "--log", "off"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )
        assert self.process.stdout is not None
        output = json.loads(self.process.stdout.readline())
        self.address, self.key = output["address"], output["key"]
        self.headers = {"Authorization": f"Bearer {self.key}"}

    def peak(self) -> int:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) << 10

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc to read a process's memory from")
    server = Server(tmp_path_factory.mktemp("hostile"))
    try:
        yield server
    finally:
        server.end()


async def unharmed(client: httpx2.AsyncClient, attack: Awaitable[Any]) -> Any:
    """The end of an attack, while somebody else is served all the time."""
    attacking = asyncio.ensure_future(attack)
    while True:
        assert (await client.get("/api/sessions")).status_code == 200
        if attacking.done():
            return attacking.result()
        await asyncio.sleep(0.1)


def attacked(server: Server, attack: Callable[[httpx2.AsyncClient], Awaitable[Any]]) -> Any:
    """Run an attack; somebody else is served, and memory stays what it was."""

    async def test() -> Any:
        async with httpx2.AsyncClient(
            base_url=server.address, headers=server.headers, timeout=120
        ) as client:
            before = server.peak()
            result = await unharmed(client, attack(client))
            assert server.peak() - before < MOST_MORE
            return result

    return asyncio.run(asyncio.wait_for(test(), 300))


def test_a_gigabyte_that_does_not_say_how_long_it_is(server: Server) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b'--b0\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(1024):
            yield PIECE

    async def attack(client: httpx2.AsyncClient) -> int:
        headers = {**server.headers, "Content-Type": "multipart/form-data; boundary=b0"}
        async with httpx2.AsyncClient(
            base_url=server.address, headers=headers, timeout=120
        ) as other:
            with contextlib.suppress(
                httpx2.TransportError
            ):  # the answer comes while it still sends
                return (await other.post("/api/sessions/import", content=body())).status_code
        return 413

    assert attacked(server, attack) == 413
    assert list(server.tmp.rglob("*")) == []


def test_a_small_zip_that_unpacks_to_much(server: Server) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("session.open-token.json", DOCUMENT.read_bytes())
        archive.writestr("workspace/a.bin", bytes(200 << 20))

    async def attack(client: httpx2.AsyncClient) -> int:
        files = {"file": ("a.zip", made.getvalue())}
        return (await client.post("/api/sessions/import", files=files)).status_code

    assert attacked(server, attack) == 200
    assert list(server.tmp.rglob("*")) == []


@pytest.mark.parametrize(
    "path", ["/api/sessions/import", "/api/sessions", "/socket.io/?EIO=4&transport=polling&sid=x"]
)
@pytest.mark.parametrize("has_key", [True, False])
def test_a_gigabyte_that_says_so(server: Server, path: str, has_key: bool) -> None:
    async def attack(client: httpx2.AsyncClient) -> str:
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        key = f"Authorization: Bearer {server.key}\r\n" if has_key else ""
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\n{key}Content-Type: application/json\r\nContent-Length: {1 << 30}"
        writer.write(f"{head}\r\n\r\n".encode())
        line = await reader.readline()
        writer.transport.abort()
        return line.decode().split()[1]

    assert attacked(server, attack) in (
        ("413",) if has_key and "sid" not in path else ("400", "401", "413")
    )


def test_connections_that_say_nothing_or_little(server: Server) -> None:
    async def attack(client: httpx2.AsyncClient) -> None:
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(600)]
        ended = [asyncio.create_task(_ended(reader)) for reader, _ in held]
        try:
            for number, (_, writer) in enumerate(held):
                writer.write(b"GET /api/version HTTP/1.1\r\nX-A: "[: number % 40])
            for _ in range(20):
                for _, writer in held:
                    writer.write(b"a")
                await asyncio.sleep(0.05)
        finally:
            for _, writer in held:
                writer.transport.abort()
            await asyncio.gather(*ended)

    attacked(server, attack)


async def _ended(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()


def test_heads_without_end(server: Server) -> None:
    async def attack(client: httpx2.AsyncClient) -> bytes:
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(ConnectionError):
            writer.write(b"GET / HTTP/1.1\r\n")
            for number in range(200):
                writer.write(b"X-%d: " % number + b"a" * 100_000 + b"\r\n")
                await writer.drain()
        line = b""
        with contextlib.suppress(ConnectionError):
            line = await reader.readline()
        writer.transport.abort()
        return line

    assert attacked(server, attack) in (b"", b"HTTP/1.1 400 Bad Request\r\n")


def test_a_flood_of_events_ends_the_one_who_floods(server: Server) -> None:
    async def attack(client: httpx2.AsyncClient) -> list[str]:
        gone = asyncio.Event()
        flooder = socketio.AsyncClient(reconnection=False)
        codes: list[str] = []
        flooder.on("disconnect", lambda *_: gone.set())
        flooder.on("system:error", lambda problem: codes.append(problem["code"]))
        await flooder.connect(server.address, auth={"token": server.key}, transports=["websocket"])
        with contextlib.suppress(socketio.exceptions.SocketIOError):
            while not gone.is_set():
                for _ in range(100):
                    await flooder.emit("session:subscribe", {"session_id": "x" * 1000})
                await asyncio.sleep(0)
        await gone.wait()
        await flooder.shutdown()
        return codes

    assert attacked(server, attack)


def test_a_flood_of_unauthenticated_requests_does_not_slow_users(server: Server) -> None:
    async def attack(client: httpx2.AsyncClient) -> set[int]:
        limits = httpx2.Limits(max_connections=20)
        async with httpx2.AsyncClient(base_url=server.address, limits=limits, timeout=120) as other:
            polls = [other.get("/socket.io/?EIO=4&transport=polling") for _ in range(1000)]
            return {answer.status_code for answer in await asyncio.gather(*polls)}

    assert attacked(server, attack) == {200, 429}
