"""Live deliveries: to a hundred subscribers beside a bare python-socketio, to five hundred in
batches, to one asleep.

    python bench/live.py [a_hundred] [many] [asleep]

Clients run in a process of their own, read frames and count what is in them. Ours is the whole way:
each event is written to the log, committed, folded, announced and sent; the bare server only emits the
same bytes to a room. The data lie in memory where there is such a folder: how fast a disk commits
is what bench/store.py measures."""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import socketio
import uvicorn

from open_token.server.config import Limits, ServerConfig
from open_token.server.listener import RunningServer, new_event_loop, run_server
from open_token.server.ws.sockets import MsgspecJson

ROUNDS, EVENTS, SUBSCRIBERS = 3, 400, 100
MANY, RATE, SECONDS = 500, 500, 4
ASLEEP = 60_000
TEXT = "x" * 60
SESSION = "sess_bench"
MEMORY = Path("/dev/shm")


class Watcher(asyncio.Protocol):
    """A client in as few steps as it takes: connects, subscribes, counts."""

    def __init__(self, crowd: "Crowd", is_sampled: bool) -> None:
        self.crowd, self.is_sampled = crowd, is_sampled
        self.data, self.is_open = b"", False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(
            b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )

    def send(self, text: str) -> None:
        data = text.encode()
        length = (
            bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        )
        self.transport.write(b"\x81" + length + bytes(4) + data)

    def data_received(self, data: bytes) -> None:
        data = self.data + data
        if not self.is_open:
            _, end, data = data.partition(b"\r\n\r\n")
            self.is_open = bool(end)
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
            self.take(data[place + head : place + head + size])
            place += head + size
        self.data = data[place:]

    def take(self, frame: bytes) -> None:
        if frame.startswith(b"42"):
            self.crowd.count(frame, self.is_sampled)
        elif frame.startswith(b"0"):
            self.send("40" + json.dumps({"token": self.crowd.token}))
        elif frame.startswith(b"40"):
            self.send(
                "420"
                + json.dumps(["session:subscribe", {"session_id": SESSION, "event_format": "raw"}])
            )
        elif frame.startswith(b"43"):
            self.crowd.is_there()
            if self.crowd.is_asleep:
                self.transport.pause_reading()
        elif frame == b"2":
            self.send("3")

    def connection_lost(self, problem: Any) -> None:
        self.crowd.lost += 1


class Crowd:
    """Many clients, and what they have together."""

    def __init__(self, token: str, subscribers: int, expected: int, is_asleep: bool) -> None:
        self.token, self.subscribers, self.expected, self.is_asleep = (
            token,
            subscribers,
            expected,
            is_asleep,
        )
        self.there = self.frames = self.events = self.lost = 0
        self.waits: list[float] = []

    def is_there(self) -> None:
        self.there += 1
        if self.there == self.subscribers:
            print("ready", flush=True)

    def count(self, frame: bytes, is_sampled: bool) -> None:
        now = time.monotonic()
        self.frames += 1
        self.events += frame.count(b'"patch_type"')
        if is_sampled:
            for part in frame.split(b"made at ")[1:]:
                self.waits.append(now - float(part[:17]))
        if self.events == self.expected:
            result = {"at": now, "frames": self.frames, "events": self.events, "waits": self.waits}
            print(json.dumps(result), flush=True)


async def watch(address: str, token: str, subscribers: int, expected: int, is_asleep: bool) -> None:
    """The clients' process: until its input ends."""
    crowd = Crowd(token, subscribers, expected, is_asleep)
    host, _, port = address.removeprefix("http://").rpartition(":")
    loop = asyncio.get_running_loop()
    for number in range(subscribers):
        await loop.create_connection(
            lambda number=number: Watcher(crowd, number < 10), host, int(port)
        )
    await loop.run_in_executor(None, sys.stdin.read)


@contextlib.asynccontextmanager
async def clients(
    address: str, token: str, subscribers: int, expected: int, is_asleep: bool = False
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Clients that are connected and have subscribed."""
    given = [address, token, str(subscribers), str(expected), str(int(is_asleep))]
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, __file__, "--watch", *given]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 24)
    assert process.stdout
    assert process.stdin
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def report(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout
    result: dict[str, Any] = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    return result


@contextlib.asynccontextmanager
async def bare() -> AsyncIterator[tuple[str, Any]]:
    """python-socketio and nothing else, set up as ours is."""
    server = socketio.AsyncServer(async_mode="asgi", json=MsgspecJson)

    async def subscribe(sid: str, payload: Any) -> str:
        await server.enter_room(sid, SESSION)
        return "ok"

    server.on("session:subscribe", subscribe)
    app = socketio.ASGIApp(server)
    config = uvicorn.Config(
        app,
        port=0,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
    )
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    while not running.started:
        await asyncio.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        running.should_exit = True
        await server.shutdown()
        await task


@contextlib.asynccontextmanager
async def ours(folder: Path) -> AsyncIterator[tuple[RunningServer, str, str]]:
    """Our server, its owner and a key."""
    limits = Limits(connections_per_user=10**6, events_per_minute=10**9)
    async with run_server(ServerConfig(data=folder, port=0, limits=limits), {}) as server:
        owner = (await server.services.store.users())[0].id
        assert server.first_key
        await server.services.journal.create(owner, {"id": SESSION})
        await server.services.journal.write(
            owner, SESSION, lambda state: [("turn.opened", {"turn": {"turn_id": "t"}})]
        )
        yield server, owner, server.first_key


def block(text: str) -> tuple[str, dict[str, Any]]:
    return "block.added", {
        "turn_id": "t",
        "block": {"type": "system_notification", "content": text},
        "block_index": 0,
    }


async def a_hundred(folder: Path) -> None:
    """Events one after the other to a hundred subscribers."""
    item = {
        "session_id": SESSION,
        "sequence": 1,
        "turn_id": "t",
        "loop_id": "root",
        "patch_type": "add_content",
    }
    data = {"type": "system_notification", "content": TEXT, "tool_call_id": None, "block_index": 0}
    event = {"type": "turn:patch", "payload": {**item, "data": data}, "stream_sequence": 12345}
    batch = {"session_id": SESSION, "events": [event]}
    expected, rates = EVENTS * SUBSCRIBERS, {"bare": [0.0], "ours": [0.0]}
    frames = 0
    async with bare() as (address, io), ours(folder) as (server, owner, token):
        for _ in range(ROUNDS):
            async with clients(address, "none", SUBSCRIBERS, expected) as crowd:
                start = time.monotonic()
                for _ in range(EVENTS):
                    await io.emit("turn:events", batch, room=SESSION)
                rates["bare"].append(expected / ((await report(crowd))["at"] - start))
            async with clients(server.address, token, SUBSCRIBERS, expected) as crowd:
                start = time.monotonic()
                for _ in range(EVENTS):
                    await server.services.journal.write(owner, SESSION, lambda state: [block(TEXT)])
                result = await report(crowd)
                rates["ours"].append(expected / (result["at"] - start))
                frames = result["frames"]
    plain, whole = max(rates["bare"]), max(rates["ours"])
    print(
        f"{SUBSCRIBERS} subscribers, bare python-socketio".ljust(52) + f"{plain:8.0f} deliveries/s"
    )
    print(
        f"{SUBSCRIBERS} subscribers, ours, logged and committed".ljust(52)
        + f"{whole:8.0f} deliveries/s   {whole / plain:.0%} of bare (aim: 70 %), {expected / frames:.1f} events a frame"
    )


async def many(folder: Path) -> None:
    """Words at the pace of a fast model to five hundred subscribers; whoever writes takes what came
    meanwhile."""
    words = RATE * SECONDS
    expected = words * MANY
    async with (
        ours(folder) as (server, owner, token),
        clients(server.address, token, MANY, expected) as crowd,
    ):
        used, start = time.process_time(), time.monotonic()
        made = 0
        while made < words:
            await asyncio.sleep(0.005)
            due = min(words, int((time.monotonic() - start) * RATE)) - made
            stamps = [start + (made + number) / RATE for number in range(due)]
            steps = [
                ("text.delta", {"turn_id": "t", "text": f"made at {stamp:017.6f} "})
                for stamp in stamps
            ]
            await server.services.journal.write(owner, SESSION, lambda state, steps=steps: steps)
            made += due
        result = await report(crowd)
        took, cpu = result["at"] - start, time.process_time() - used
    waits = sorted(result["waits"])
    p50, p99 = statistics.median(waits) * 1e3, waits[int(len(waits) * 0.99)] * 1e3
    print(
        f"{MANY} subscribers, {words / took:.0f} words/s".ljust(52)
        + f"{expected / took:8.0f} deliveries/s   p50 {p50:.1f} ms (aim: 50)  p99 {p99:.1f} ms   "
        + f"{result['events'] / result['frames']:.0f} words a frame, {cpu / took:.0%} of a core"
    )


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def asleep(folder: Path) -> None:
    """One who subscribes and never reads, beside one who does."""
    held = 0

    async def write(server: RunningServer, owner: str) -> float:
        """How much memory it took at most."""
        nonlocal held
        before = most = resident()
        for _ in range(ASLEEP // 100):
            await server.services.journal.write(
                owner, SESSION, lambda state: [block(TEXT) for _ in range(100)]
            )
            most = max(most, resident())
            held = max(
                held, *(socket.queue.size for socket in server.live.server.eio.sockets.values())
            )
        return most - before

    async with ours(folder) as (server, owner, token), clients(server.address, token, 1, 0):
        await write(server, owner)
        usual = await write(server, owner)
        held = 0
        async with clients(server.address, token, 1, 0, is_asleep=True):
            grown = await write(server, owner)
            left = server.services.connections.count()
    print(
        f"a subscriber that never reads, {ASLEEP} events".ljust(52)
        + f"{held / 1e6:8.1f} MB held for it, process {grown - usual:+.1f} MB (aim: 5)   "
        + ("dropped" if left == 1 else "STILL THERE")
    )


async def main() -> None:
    for number, part in enumerate((a_hundred, many, asleep)):
        if sys.argv[1:] and part.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            await asyncio.wait_for(part(Path(folder) / str(number)), 300)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if sys.argv[1:2] == ["--watch"]:
            place, token, *numbers = sys.argv[2:]
            count, wanted, sleeps = (int(number) for number in numbers)
            runner.run(watch(place, token, count, wanted, bool(sleeps)))
        else:
            runner.run(main())
