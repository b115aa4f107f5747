"""A server under a steady load for a while: does its memory stay flat, and how soon do words
arrive?

    python tests/longrun/soak.py [SECONDS [STORE]]

10,000 sessions are in the store; 500 sockets watch 50 agents that speak all the time, one session
after the other; every second agent is asked over HTTP. Everything that is sent to a socket must come once and in order. Delivery is the time
from the entry of the log, before it is committed, to the socket; the clients share the machine with
the server."""

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from helpers.server.minimal_socket_client import MinimalSocketClient
from helpers.server.stores import new_postgres
from longrun.node_faults import Node
from open_token.model.log_events import LogEntry
from open_token.server.cancellation import cancel_and_wait
from open_token.server.clock import parse_timestamp
from open_token.server.config import ServerConfig
from open_token.server.lifecycle import run_services
from open_token.server.store.postgres.store import PostgresStore
from open_token.server.store.rows import User
from open_token.server.store.sqlite import log
from open_token.server.store.sqlite.database import connect_to_read
from open_token.session import SessionState, to_stream_item
from open_token.session.actions import build_text_blocks, send_user_message

STORED, SOCKETS, LANES = 10_000, 500, 50
WORDS = ["long", "think", "list files", "subagent list files"]
SAMPLE_EVERY, RUN_SECONDS, SETTLE_SECONDS = 10.0, 600.0, 60.0
MORE = 1.10
"""The memory at the end may be so many times that of the middle."""
CACHES = {"sqlite": (64 + 4 * 16) << 20, "postgres": 0}
"""What the connections to the store may keep of it; they fill for as long as there is something new
to read."""
OWNER = "user_soak"
_UNLIMITED = ("CONNECTIONS_PER_USER", "EVENTS_PER_MINUTE", "REQUESTS_PER_MINUTE")


@dataclass
class Figures:
    """What was seen."""

    memory: list[tuple[float, int]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Milliseconds from an entry of the log to a socket."""
    firsts: list[float] = field(default_factory=list)
    """Milliseconds from a message to its acknowledgement."""
    events: int = 0
    runs: int = 0
    errors: list[str] = field(default_factory=list)


class Lane:
    """Some sockets that go from session to session, and an agent that speaks in each."""

    def __init__(self, soak: "Soak", sockets: list[MinimalSocketClient], number: int) -> None:
        self.soak, self.sockets, self.random = soak, sockets, random.Random(number)
        self._http: httpx2.AsyncClient | None = None
        if number % 2:
            headers = {"Authorization": f"Bearer {soak.node.key}"}
            self._http = httpx2.AsyncClient(
                base_url=soak.node.address, headers=headers, timeout=RUN_SECONDS
            )
        self.seen: dict[MinimalSocketClient, list[int]] = {socket: [] for socket in sockets}
        self.came: list[tuple[int, float]] = []

    def take(self, socket: MinimalSocketClient, numbers: list[int]) -> None:
        """Events of a socket; of the first one also when they came."""
        self.seen[socket] += numbers
        if socket is self.sockets[0]:
            now = time.time()
            self.came += [(number, now) for number in numbers]

    async def go(self) -> None:
        """One run after the other, until it is cancelled."""
        while True:
            session_id = next(self.soak.sessions)
            for numbers in self.seen.values():
                numbers.clear()
            self.came.clear()
            asked = {"session_id": session_id, "event_format": "raw"}
            before = (await self.soak.read(session_id))[-1].seq
            await asyncio.gather(
                *(socket.ask("session:subscribe", asked) for socket in self.sockets)
            )
            ends = [socket.ends + 1 for socket in self.sockets]
            began = time.monotonic()
            result = await self._send(session_id, self.random.choice(WORDS))
            self.soak.figures.firsts.append((time.monotonic() - began) * 1000)
            if result.get("status") != "ok":
                self.soak.figures.errors.append(str(result))
            await asyncio.gather(*(_ended(*both) for both in zip(self.sockets, ends, strict=True)))
            await self._over(session_id, before)
            await asyncio.gather(
                *(socket.ask("session:unsubscribe", asked) for socket in self.sockets)
            )

    async def _send(self, session_id: str, words: str) -> dict[str, Any]:
        """Send a message by the way of this lane; gives its acknowledgement."""
        message = {"session_id": session_id, "message": words}
        if self._http is None:
            return await self.sockets[0].ask("chat:send", message)
        url = f"/api/sessions/{session_id}/messages?wait=false"
        result: dict[str, Any] = (await self._http.post(url, json=message)).json()
        return result

    async def _over(self, session_id: str, before: int) -> None:
        """Compare what every socket was told with the log, from an entry on."""
        figures, entries = self.soak.figures, await self.soak.read(session_id)
        state = SessionState(session_id)
        expected = []
        for entry in entries:
            state.apply(entry)
            if entry.seq > before and to_stream_item(entry, state) is not None:
                expected.append(entry.seq)
        await self._told_until(expected[-1])
        at = {entry.seq: parse_timestamp(entry.at).timestamp() for entry in entries}
        figures.waits += [(when - at[number]) * 1000 for number, when in self.came]
        figures.runs += 1
        for numbers in self.seen.values():
            figures.events += len(numbers)
            if numbers != expected:
                figures.errors.append(
                    f"{session_id}: a socket was told {len(numbers)} events of {len(expected)}"
                )

    async def _told_until(self, last: int) -> None:
        """Wait a while for the last event: the status of a session follows the end of its run."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while any(last not in numbers for numbers in self.seen.values()):
                    await asyncio.sleep(0.01)


async def _ended(socket: MinimalSocketClient, count: int) -> None:
    async with asyncio.timeout(RUN_SECONDS):
        while socket.ends < count:
            if socket.is_lost:
                raise ConnectionError("a socket was lost")
            socket.moved.clear()
            await socket.moved.wait()


class Soak:
    """A server process under load."""

    def __init__(self, node: Node, url: str | None, names: list[str]) -> None:
        self.node, self.sessions = node, itertools.cycle(names)
        self.figures = Figures()
        self._store = PostgresStore(url, node.folder / "data") if url else None
        self._db = None if url else connect_to_read(node.folder / "data")

    async def read(self, session_id: str) -> list[LogEntry]:
        """The log of a session, past the server."""
        if self._store is not None:
            return await self._store.read_log(OWNER, session_id, 0, 10**6)
        assert self._db is not None
        return log.read_log(self._db, OWNER, session_id, 0, 10**6)

    async def run(self, seconds: float) -> None:
        """Let everybody speak and listen for so long."""
        sockets = await self._connected()
        lanes = [Lane(self, sockets[n::LANES], n) for n in range(LANES)]
        by_socket = {socket: lane for lane in lanes for socket in lane.sockets}
        for socket in sockets:
            socket._told = lambda result, numbers: by_socket[result].take(result, numbers)
        tasks = [asyncio.create_task(lane.go()) for lane in lanes]
        sampling = asyncio.create_task(self._sample())
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        self.figures.errors += [
            f"{type(task.exception()).__name__}: {task.exception()}" for task in done
        ]
        await asyncio.gather(*map(cancel_and_wait, (*tasks, sampling)))
        self.figures.errors += [words for socket in sockets for words in socket.errors]
        for socket in sockets:
            socket.close()
        if self._store is not None:
            await self._store.close()

    async def _connected(self) -> list[MinimalSocketClient]:
        host, _, port = self.node.address.removeprefix("http://").rpartition(":")
        loop, sockets = asyncio.get_running_loop(), []
        for _ in range(SOCKETS):
            made = await loop.create_connection(
                lambda: MinimalSocketClient(self.node.key or "", lambda *_: None), host, int(port)
            )
            sockets.append(made[1])
            await made[1].there
        return sockets

    async def _sample(self) -> None:
        began = time.monotonic()
        while True:
            self.figures.memory.append((time.monotonic() - began, _memory(self.node)))
            at, size = self.figures.memory[-1]
            print(f"  {at:5.0f} s  {size / 2**20:6.1f} MiB  {self.figures.runs} runs", flush=True)
            await asyncio.sleep(SAMPLE_EVERY)


def _memory(node: Node) -> int:
    assert node.process
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def _cpu(node: Node) -> float:
    assert node.process
    words = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def _filled(folder: Path, url: str | None) -> list[str]:
    """The sessions that are there already, with a message and an answer each."""
    config = ServerConfig(data=folder, database=url, role="gateway")
    async with run_services(config, {}) as services:
        await services.store.add_user(
            User(id=OWNER, name="soak", role="owner", created_at=services.clock.now())
        )
        (folder / "key").write_text(
            (await services.store.add_key(OWNER, "soak", "full", services.clock.now()))[1]
        )
        said = [
            *send_user_message("turn_1", build_text_blocks("What is there?")),
            ("turn.opened", {"turn": {"turn_id": "turn_2", "model": "demo"}}),
            ("text.delta", {"turn_id": "turn_2", "text": "Nothing yet. " * 20}),
            ("turn.ended", {"turn_id": "turn_2"}),
        ]
        names = [f"sess_{number}" for number in range(STORED)]
        for start in range(0, STORED, 200):
            part = names[start : start + 200]
            await asyncio.gather(
                *(
                    services.journal.create(OWNER, {"id": name, "intent": name}, lambda _: said)
                    for name in part
                )
            )
    return names


@contextlib.asynccontextmanager
async def _serving(folder: Path, url: str | None) -> AsyncIterator[Node]:
    os.environ |= {f"OPEN_TOKEN_SERVER_LIMITS_{name}": "1000000" for name in _UNLIMITED}
    node = Node("all", folder, {}, {"database": url} if url else {}, 0.0, delay=0.02)
    node.key = (folder / "data" / "key").read_text()
    await node.start()
    try:
        yield node
    finally:
        await node.end()


def _render_figures(figures: Figures, cpu: float, seconds: float) -> str:
    sizes = [size / 2**20 for _, size in figures.memory]
    start, middle, end = sizes[0], sizes[len(sizes) // 2], sizes[-1]
    cuts = statistics.quantiles(figures.waits, n=100)
    acks = statistics.quantiles(figures.firsts, n=100)
    lines = [
        f"memory MiB: start {start:.1f}, middle {middle:.1f}, end {end:.1f}; second half {end - middle:+.1f}",
        f"delivery ms: p50 {cuts[49]:.1f}, p99 {cuts[98]:.1f} of {len(figures.waits)}",
        f"acknowledgement ms: p50 {acks[49]:.1f}, p99 {acks[98]:.1f}",
        f"{figures.runs} runs, {figures.events} events delivered, {cpu / seconds:.2f} of a core, "
        f"{cpu / max(figures.events, 1) * 1e6:.0f} µs each; load {os.getloadavg()[0]:.1f}",
        f"{len(figures.errors)} errors {sorted(set(figures.errors))[:5] or ''}",
    ]
    return "\n".join(lines)


async def soak(folder: Path, seconds: float, url: str | None) -> tuple[Figures, float]:
    """Fill the store, and let everybody speak; gives the figures and the server's processor
    time."""
    began = time.monotonic()
    names = await _filled(folder / "data", url)
    print(f"{STORED} sessions written in {time.monotonic() - began:.0f} s", flush=True)
    async with _serving(folder, url) as node:
        made = Soak(node, url, names)
        before = _cpu(node)
        await made.run(seconds)
        return made.figures, _cpu(node) - before


def main(words: list[str]) -> None:
    seconds = float(words[0]) if words else 1200.0
    kind = words[1] if words[1:] else "sqlite"
    url = new_postgres() if kind == "postgres" else None
    print(
        f"{SOCKETS} sockets, {LANES} agents, {STORED} sessions on {kind} for {seconds:.0f} s",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        figures, cpu = asyncio.run(soak(Path(folder), seconds, url))
    print(_render_figures(figures, cpu, seconds))
    sizes = [size for _, size in figures.memory]
    grows = sizes[-1] > max(MORE * sizes[len(sizes) // 2], sizes[0] + CACHES[kind])
    print("memory grows" if grows else "memory stays within its bounds")
    sys.exit(bool(figures.errors) or grows)


if __name__ == "__main__":
    main(sys.argv[1:])
