"""Nodes on one PostgreSQL that are killed, paused or cut off while agents speak, again and again.

    python tests/longrun/node_faults.py [ROUNDS [SEED [LEASE]]]

Two or three servers as users start them, in one role or several, notify each other over Redis or
PostgreSQL. A run whose node is gone goes on at another, once; a node that wakes or is joined again
writes nothing more for it; whoever watches, over Socket.IO or event streams, has every event
exactly once. LEASE are the seconds after which a run is taken over."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from helpers.server import short_lease_node
from helpers.server.breakable_link import BreakableLink, Cut
from helpers.server.live_events import encode_for_wire, summarize_turns
from helpers.server.local_services import redis
from helpers.server.node_clients import Watcher, send_message
from helpers.server.store_history import History
from helpers.server.stores import new_postgres
from open_token.model.log_events import LogEntry
from open_token.model.session_types import to_builtins
from open_token.server.cancellation import cancel_and_wait
from open_token.server.store.postgres.store import PostgresStore
from open_token.session import SessionState, to_stream_item

LAYOUTS = [("all", "all"), ("all", "all", "all"), ("gateway", "worker", "worker")]
CUTS = ["stalled", "lost", "reset"]
FAULTS = [
    "killed",
    "paused",
    *(f"{service} {cut}" for service in ("database", "redis") for cut in CUTS),
]
WORDS = [
    "think, then long",
    "list files, then long",
    "subagent list files, then long",
    "long, remember {mark}",
]
SESSIONS = 3
ROUNDS_EACH = 8
"""After so many faults new nodes and a new database are begun."""
LEASE = 3.0
TIMEOUT = 180.0
OVER = ("completed", "failed", "interrupted")
LONG = " ".join(f"word{number}" for number in range(1, 2001))


@dataclass
class Node:
    """A server process, and its own ways to the database and to Redis."""

    role: str
    folder: Path
    links: dict[str, BreakableLink]
    urls: dict[str, str]
    lease: float
    delay: float = 0.001
    """Seconds between the words of the demo model."""
    address: str = ""
    key: str | None = None
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        words = [
            "serve",
            "--data",
            str(self.folder / "data"),
            "--port",
            "0",
            "--json",
            "--role",
            self.role,
        ]
        words += [word for name, url in self.urls.items() for word in (f"--{name}", url)]
        env = {
            **os.environ,
            "PYTHONPATH": ":".join(sys.path),
            "OPEN_TOKEN_DEMO_DELAY": str(self.delay),
        }
        env |= {"OPEN_TOKEN_HOME": str(self.folder / "home"), "LEASE": str(self.lease)}
        with (self.folder / f"node{id(self)}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                short_lease_node.__file__,
                *words,
                env=env,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout
        output = json.loads(await asyncio.wait_for(self.process.stdout.readline(), TIMEOUT))
        self.address, self.key = output["address"], output["key"] or self.key

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process
        self.process.send_signal(number)

    async def end(self) -> None:
        """End it, whatever state it is in."""
        if self.process is not None and self.process.returncode is None:
            self.signal(signal.SIGKILL)
            await self.process.wait()

    async def hurt(self, fault: str) -> None:
        """Let something happen to it."""
        if fault == "killed":
            await self.end()
        elif fault == "paused":
            self.signal(signal.SIGSTOP)
        else:
            service, how = fault.split()
            self.links[service].cut(cast(Cut, how))

    async def heal(self, fault: str) -> None:
        """Take it back, and wait until it says that it is well."""
        if fault == "killed":
            await self.start()
        elif fault == "paused":
            self.signal(signal.SIGCONT)
        else:
            self.links[fault.split()[0]].restore()
        async with asyncio.timeout(TIMEOUT), httpx2.AsyncClient(timeout=10) as client:
            while True:
                with contextlib.suppress(httpx2.HTTPError):
                    if (await client.get(f"{self.address}/healthz")).status_code == 200:
                        return
                await asyncio.sleep(0.1)


@dataclass
class WatchedSession:
    """A session, who watches it, and what it received: the place of each message as it was
    acknowledged."""

    id: str
    watchers: list[Watcher] = field(default_factory=list)
    acknowledged: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The text of a message, its place in the log and its turn."""
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> int:
        return max((place for place, _ in self.acknowledged.values()), default=0)


class Cluster:
    """Some nodes and sessions, and a way into the database that nobody cuts."""

    def __init__(self, nodes: list[Node], store: PostgresStore, random: Random) -> None:
        self.nodes, self.store, self.random = nodes, store, random
        self.token = next(node.key for node in nodes if node.key) or ""
        self.owner = ""
        self.sessions: list[WatchedSession] = []
        self._count = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Make the sessions, and let clients watch them."""
        self.owner = (await self.store.users())[0].id
        headers = {"Authorization": f"Bearer {self.token}"}
        for number in range(SESSIONS):
            async with httpx2.AsyncClient(headers=headers, timeout=30) as client:
                made = await client.post(
                    f"{self.nodes[0].address}/api/sessions", json={"intent": f"Session {number}"}
                )
            conversation = WatchedSession(made.raise_for_status().json()["session_id"])
            self.sessions.append(conversation)
            for way in ("socket", "sse"):
                watcher = Watcher(
                    self.nodes, self.token, conversation.id, way, Random(self.random.random())
                )
                watcher.known = lambda conversation=conversation: conversation.known
                conversation.watchers.append(watcher)
                self._tasks.append(asyncio.create_task(watcher.watch()))

    async def close(self) -> None:
        """Nobody watches any more."""
        await asyncio.gather(*map(cancel_and_wait, self._tasks))
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    async def say(self, conversation: WatchedSession, nodes: Sequence[Node], words: str) -> Node:
        """Send a message, and look up at once where it stands."""
        self._count += 1
        name, text = f"m{self._count}", words.format(mark=f"mark{self._count}")
        message = {"session_id": conversation.id, "message": text, "client_message_id": name}
        node, output = await send_message(nodes, self.token, message, self.random)
        conversation.texts[name] = text
        if (turn_id := output["turn_id"]) is not None:
            place = next(
                entry.seq
                for entry in reversed(await self.log(conversation))
                if entry.kind == "turn.opened" and entry.data["turn"]["turn_id"] == turn_id
            )
            conversation.acknowledged[name] = (place, turn_id)
        return node  # type: ignore[no-any-return]

    async def log(self, conversation: WatchedSession) -> list[LogEntry]:
        return await self.store.read_log(self.owner, conversation.id, 0, 10**7)

    async def spoken(self, count: int) -> None:
        """Wait until the sessions have grown by so many entries since now."""
        names = [conversation.id for conversation in self.sessions]

        async def total() -> int:
            return sum(last for _, last in (await self.store.get_heads(names)).values())

        start = await total()
        async with asyncio.timeout(TIMEOUT):
            while await total() < start + count:
                await asyncio.sleep(0.01)

    async def over(self) -> int:
        """Wait until no run is under way; gives how many were taken over so far."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                runs = [
                    run
                    for conversation in self.sessions
                    for run in await self.store.runs(self.owner, conversation.id)
                ]
                if all(run.status in OVER for run in runs):
                    return sum(run.attempts > 1 for run in runs)
                await asyncio.sleep(0.1)

    async def round(self, fault: str) -> None:
        """Let agents speak, hurt a node in the middle of it, wait until all is said elsewhere, and
        take it back."""
        took = [
            await self.say(conversation, self.nodes, self.random.choice(WORDS))
            for conversation in self.sessions
        ]
        await self.spoken(self.random.randint(1, 60))
        victim = self.random.choice(
            [*took, *self.nodes, *(node for node in self.nodes if node.role != "gateway")]
        )
        await victim.hurt(fault)
        await self.over()
        await victim.heal(fault)
        await self.say(self.random.choice(self.sessions), [victim], "list files")
        await self.over()

    async def faults(self) -> list[str]:
        """What is wrong in the end."""
        found = []
        for conversation in self.sessions:
            entries = await self.log(conversation)
            state = SessionState(conversation.id)
            for entry in entries:
                state.apply(entry)
            output = [entry.seq for entry in entries if to_stream_item(entry, state) is not None]
            for watcher in conversation.watchers:
                async with asyncio.timeout(TIMEOUT):
                    while watcher.seen < output[-1]:
                        await asyncio.sleep(0.05)
            found += [
                *_history_faults(conversation, entries, output),
                *_log_faults(entries),
                *_said_faults(conversation, state),
            ]
            found += _seen_faults(conversation, state)
            runs = await self.store.runs(self.owner, conversation.id)
            found += [
                f"{conversation.id}: a run {run.status}: {run.error}"
                for run in runs
                if run.status != "completed"
            ]
            if state.session.status not in ("completed", "idle") and state.run is not None:
                found.append(f"{conversation.id} is still {state.session.status}")
        kept = await self.store.memories(self.owner, limit=10_000)
        marks = Counter(row.content for row in kept.items)
        found += [
            f"{mark} was remembered {count} times" for mark, count in marks.items() if count > 1
        ]
        return [*found, *await self.store.check()]


def _history_faults(
    conversation: WatchedSession, entries: list[LogEntry], output: list[int]
) -> list[str]:
    """The checker of histories, over the entries that clients receive, counted from 1."""
    places = {seq: number for number, seq in enumerate(output, 1)}
    before = {
        entry.seq: sum(seq <= entry.seq for seq in output)
        for entry in entries
        if entry.seq not in places
    }

    def place(seq: int) -> int:
        return places.get(seq) or before.get(seq, 0)

    history = History()
    for seq, _ in conversation.acknowledged.values():
        history.acknowledged(conversation.id, [seq], place(seq))
    for watcher in conversation.watchers:
        for here in watcher.connections:
            got = [(place(item["stream_sequence"]), item["stream_sequence"]) for item in here.items]
            history.read(
                conversation.id,
                place(here.after),
                got,
                place(here.known),
                is_whole=here is watcher.connections[-1],
            )
    found = history.faults({conversation.id: [(place(seq), seq) for seq in output]})
    return [
        *found,
        *(
            f"{conversation.id}: a client over {watcher.way} received {len(watcher.numbers)} events of {len(output)}"
            for watcher in conversation.watchers
            if watcher.numbers != output
        ),
    ]


def _log_faults(entries: list[LogEntry]) -> list[str]:
    """Nothing is written for a turn that is over: its node was fenced off."""
    ended: set[str] = set()
    found = []
    for entry in entries:
        turn_id = entry.data.get("turn_id")
        if entry.kind == "turn.ended":
            ended.add(str(turn_id))
        elif turn_id in ended and entry.kind in (
            "text.delta",
            "thinking.delta",
            "tool.called",
            "usage.counted",
        ):
            found.append(f"{entry.seq}: {entry.kind} of a turn that was over")
    started = Counter(entry.data["run_id"] for entry in entries if entry.kind == "run.started")
    over = Counter(entry.data["run_id"] for entry in entries if entry.kind == "run.ended")
    if started != over or any(count > 1 for count in over.values()):
        found.append("runs began and ended otherwise than once")
    return found


def _said_faults(conversation: WatchedSession, state: SessionState) -> list[str]:
    """Every message is there once, and answered once, whole."""
    found, asked, answers = [], "", dict[str, list[str]]()
    for turn in state.path:
        if turn.facts.loop_id != "root":
            continue
        whole = turn.snapshot()
        words = "".join(str(block.content) for block in whole.blocks if block.type == "text")
        if whole.role == "user":
            asked = str(turn.facts.turn_id)
            answers[asked] = []
        elif whole.role == "assistant" and whole.status == "completed" and not turn.calls:
            answers[asked].append(words)
    for name, text in conversation.texts.items():
        turn_id = state.sent.get(name)
        given = answers.get(turn_id or "", [])
        if turn_id is None or len(given) != 1 or ("long" in text and given[0] != LONG):
            found.append(
                f"{conversation.id}: {text!r} was answered {len(given)} times, {[len(words) for words in given]}"
            )
    for name, (_, turn_id) in conversation.acknowledged.items():
        if state.sent.get(name) != turn_id:
            found.append(
                f"{conversation.id}: {name} was acknowledged as {turn_id} and is {state.sent.get(name)}"
            )
    return found


def _seen_faults(conversation: WatchedSession, state: SessionState) -> list[str]:
    """Every client has the turns that the log has."""
    turns = encode_for_wire(to_builtins(state.branch()))
    return [
        f"{conversation.id}: a client over {watcher.way} has other turns than the log"
        for watcher in conversation.watchers
        if summarize_turns(watcher.mirror.branch()) != turns
    ]


@contextlib.asynccontextmanager
async def cluster(
    folder: Path, url: str, layout: Sequence[str], random: Random, lease: float, *, has_redis: bool
) -> AsyncIterator[Cluster]:
    """Nodes while they run, each with links of its own."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = []
        port = urlsplit(url).port or 0
        for role in layout:
            links = {"database": await stack.enter_async_context(BreakableLink(port))}
            urls = {"database": url.replace(f":{port}/", f":{links['database'].port}/")}
            if has_redis:
                links["redis"] = await stack.enter_async_context(BreakableLink(redis().port))
                urls["redis"] = f"redis://127.0.0.1:{links['redis'].port}/0"
            node = Node(role, folder, links, urls, lease)
            stack.push_async_callback(node.end)
            await node.start()
            nodes.append(node)
        store = PostgresStore(url, folder / "data")
        stack.push_async_callback(store.close)
        made = Cluster(nodes, store, random)
        await made.begin()
        stack.push_async_callback(made.close)
        yield made


async def campaign(
    folder: Path, url: str, layout: Sequence[str], faults: Sequence[str], seed: int, lease: float
) -> Any:
    """One fault after the other; gives what was wrong, and some counts."""
    random = Random(seed)
    has_redis = any(fault.startswith("redis") for fault in faults)
    async with cluster(folder, url, layout, random, lease, has_redis=has_redis) as nodes:
        for fault in faults:
            before = await nodes.over()
            await nodes.round(fault)
            after = await nodes.over()
            print(f"  {fault:17} {after - before} runs taken over", flush=True)
        found = await nodes.faults()
        events = sum(
            len(watcher.numbers)
            for conversation in nodes.sessions
            for watcher in conversation.watchers
        )
        return found, events, await nodes.over()


def main(words: list[str]) -> None:
    rounds = int(words[0]) if words else 48
    seed = int(words[1]) if words[1:] and words[1] != "-" else Random().randrange(10**6)
    lease = float(words[2]) if words[2:] else LEASE
    print(f"{rounds} faults of nodes, seed {seed}, lease {lease:g} s", flush=True)
    random, events, moved, found = Random(seed), 0, 0, list[str]()
    for start in range(0, rounds, ROUNDS_EACH):
        layout = LAYOUTS[start // ROUNDS_EACH % len(LAYOUTS)]
        faults = (FAULTS * (1 + rounds // len(FAULTS)))[start : start + ROUNDS_EACH][
            : rounds - start
        ]
        random.shuffle(faults)
        print(", ".join(layout), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            work = campaign(Path(folder), new_postgres(), layout, faults, seed + start, lease)
            found, output, taken = asyncio.run(work)
        events, moved = events + output, moved + taken
        if found:
            break
    print(
        "\n".join(found)
        or f"{events} events, each once at every client; {moved} runs taken over, each ended once"
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
