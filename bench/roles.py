"""What a streaming session costs: CPU of gateway, worker, PostgreSQL and Redis apart, with 1, 10
and 50 sessions.

    python bench/roles.py [SESSIONS ...]

In each session an agent streams 2,000 words, a hundred a second; one client follows it over a
websocket. A word stands for a token. All are processes of their own on this machine, and their CPU
time is what /proc says, so that it holds on a busy machine, too; words that wait for each other
travel in one event, so that a busy machine makes fewer and larger events. The last run has two
nodes that do everything, each with half of the clients: a check of what another node adds."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import socketio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.server.local_services import postgres, program, redis_url
from helpers.server.local_services import redis as redis_server
from helpers.server.stores import new_postgres

WORDS = 2000
DELAY = "0.01"
TICKS = os.sysconf("SC_CLK_TCK")


class Node:
    """A server process with a role."""

    def __init__(self, role: str, folder: Path, database: str) -> None:
        env = {**os.environ, "OPEN_TOKEN_HOME": str(folder), "OPEN_TOKEN_DEMO_DELAY": DELAY}
        words = [
            "--role",
            role,
            "--database",
            database,
            "--redis",
            redis_url(),
            "--port",
            "0",
            "--json",
            "--log",
            "off",
        ]
        words += ["--limits-connections-per-user", "1000", "--limits-requests-per-minute", "100000"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "open_token", "serve", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )
        assert self._process.stdout
        self.received = json.loads(self._process.stdout.readline())
        self.address = self.received["address"]

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_of(self._process.pid)

    def end(self) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)


def cpu_of(pid: int, has_children: bool = False) -> float:
    """Seconds of CPU of a process, and of those that it has started, also if they have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    total = sum(map(int, fields[11:15] if has_children else fields[11:13])) / TICKS
    if has_children:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError):
                total += cpu_of(int(child), has_children=True)
    return total


class Follower:
    """A client that counts what it hears of one session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.events = 0
        self.words = 0
        self.is_over = asyncio.Event()
        self.io = socketio.AsyncClient(reconnection=False)
        self.io.on("turn:events", self._take)
        self.io.on("chat:end", lambda payload: self.is_over.set())

    def _take(self, payload: Any) -> None:
        self.events += len(payload["events"])
        for item in payload["events"]:
            data = item["payload"].get("data")
            if isinstance(data, dict) and isinstance(data.get("text_delta"), str):
                self.words += len(data["text_delta"].split())

    async def follow(self, address: str, key: str) -> None:
        """Connect and subscribe."""
        await self.io.connect(address, auth={"token": key}, transports=["websocket"])
        await self.io.call(
            "session:subscribe", {"session_id": self.session_id, "event_format": "raw"}
        )

    async def ask(self) -> None:
        """Let the agent stream, and hear all of it."""
        answer = await self.io.call(
            "chat:send", {"session_id": self.session_id, "message": "long"}, timeout=120
        )
        assert answer["status"] == "ok", answer
        await self.is_over.wait()


def parts(nodes: dict[str, Node]) -> dict[str, float]:
    """The CPU of every part so far."""
    used = {name: node.cpu() for name, node in nodes.items()}
    used["PostgreSQL"] = cpu_of(postgres(is_durable=True).process.pid, has_children=True)
    used["Redis"] = cpu_of(redis_server().process.pid)
    return used


async def streamed(nodes: dict[str, Node], doors: list[Node], key: str, sessions: int) -> None:
    """Stream in so many sessions at once, and print what it cost."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=doors[0].address, headers=headers, timeout=60) as rest:
        made = [
            (await rest.post("/api/sessions", json={"intent": "Bench"})).json()
            for _ in range(sessions)
        ]
    followers = [Follower(item["session_id"]) for item in made]
    for number, follower in enumerate(followers):
        await follower.follow(doors[number % len(doors)].address, key)
    before = parts(nodes)
    await asyncio.gather(*(follower.ask() for follower in followers))
    used = {name: seconds - before[name] for name, seconds in parts(nodes).items()}
    for follower in followers:
        await follower.io.disconnect()
    events, words = sum(item.events for item in followers), sum(item.words for item in followers)
    assert words == WORDS * sessions, words
    shown = [f"{name} {value:.2f} s" for name, value in used.items()]
    total = sum(used.values())
    print(f"{sessions:3} sessions, {events} events, {words} words: CPU {', '.join(shown)}")
    each = {name: value / words * 1e6 for name, value in used.items()}
    print(
        "    µs a word: " + ", ".join(f"{name} {value:.0f}" for name, value in each.items()), end=""
    )
    print(f", all {total / words * 1e6:.0f}; all by delivered event {total / events * 1e6:.0f}")
    print(f"    s of CPU for each session: {total / sessions:.2f}", flush=True)


@contextlib.contextmanager
def running(folder: Path, roles: dict[str, str]) -> Iterator[dict[str, Node]]:
    """Nodes on a database of their own."""
    database = new_postgres(is_durable=True)
    nodes: dict[str, Node] = {}
    try:
        for name, role in roles.items():
            nodes[name] = Node(role, folder, database)
        yield nodes
    finally:
        for node in nodes.values():
            node.end()


def main(sizes: list[int]) -> None:
    """Both ways to share the work."""
    if not program("initdb") or not program("redis-server"):
        print("PostgreSQL or Redis is not installed: nothing is measured")
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), {"gateway": "gateway", "worker": "worker"}) as nodes,
    ):
        key = next(node.received["key"] for node in nodes.values() if node.received["key"])
        for sessions in sizes:
            asyncio.run(streamed(nodes, [nodes["gateway"]], key, sessions))
    print("two nodes that do everything:")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), {"node1": "all", "node2": "all"}) as nodes,
    ):
        key = next(node.received["key"] for node in nodes.values() if node.received["key"])
        asyncio.run(streamed(nodes, list(nodes.values()), key, sizes[-1]))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 10, 50])
