"""The REST side over real sockets: turns beside a bare route that sends the same bytes, and search
in many sessions.

    python bench/rest.py [SESSIONS]

One process serves both the application and the bare route, so that both have the same machine;
sixteen connections ask."""

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from store import AT, USER, fill

from open_token.server.config import Limits, ServerConfig
from open_token.server.core.services import Services
from open_token.server.http.app import build_app
from open_token.server.lifecycle import run_services
from open_token.server.store.rows import User
from open_token.session.actions import build_text_blocks, send_user_message

CONNECTIONS, REQUESTS, ROUNDS, TURNS = 16, 1600, 5, 200
SLICES = 10
"""Both are asked in turns, so many times in a round: a machine that is busy with other things is so
for both."""
LIMITS = Limits(requests_per_minute=100_000_000, connections_per_user=1000)


async def create_session(services: Services) -> str:
    """A session of 200 turns, about as long as a long session is."""
    session_id = "sess_bench"
    await services.journal.create(USER, {"id": session_id, "intent": "A long session"})
    for number in range(TURNS):
        steps = send_user_message(f"turn_{number}", build_text_blocks("word " * 260))
        await services.journal.write(USER, session_id, lambda state, steps=steps: steps)
    return session_id


async def serve(folder: Path, sessions: int) -> None:
    """The server process: prints its port, its key and the words of its sessions, then serves until
    it is ended."""
    async with run_services(ServerConfig(data=folder, limits=LIMITS), {}) as services:
        await services.store.add_user(User(id=USER, name="Bench", role="owner", created_at=AT))
        _, key = await services.store.add_key(USER, "bench", "full", AT)
        words = await fill(services.store, sessions)
        session_id = await create_session(services)
        ours = build_app(services)
        turns = await services.store.turns(USER, session_id)
        body = b"[" + b",".join(turn.body for turn in turns) + b"]"

        async def bare(request: Request) -> Response:
            return Response(body, media_type="application/json")

        plain = Starlette(routes=[Route("/bare", bare)])

        async def both(scope: Any, receive: Any, send: Any) -> None:
            await (plain if scope["path"] == "/bare" else ours)(scope, receive, send)

        door = socket.create_server(("127.0.0.1", 0), backlog=1024)
        facts = {
            "port": door.getsockname()[1],
            "key": key,
            "words": words,
            "bytes": len(body),
            "pid": os.getpid(),
        }
        print(json.dumps(facts), flush=True)
        server = uvicorn.Server(
            uvicorn.Config(both, log_config=None, access_log=False, lifespan="off")
        )
        await server.serve(sockets=[door])


async def ask(port: int, path: str, key: str, count: int, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    for _ in range(count):
        started = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0], head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        took.append(time.perf_counter() - started)
    writer.close()
    await writer.wait_closed()


def used(pid: int) -> float:
    """Processor seconds of the server so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Asked:
    """What one address was asked in a round, and what that took."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.waits: list[float] = []
        self.seconds = self.spent = 0.0

    async def slice(self, facts: Any) -> None:
        """A part of the round."""
        started, before, share = (
            time.perf_counter(),
            used(facts["pid"]),
            REQUESTS // CONNECTIONS // SLICES,
        )
        asking = (
            ask(facts["port"], self.path, facts["key"], share, self.waits)
            for _ in range(CONNECTIONS)
        )
        await asyncio.gather(*asking)
        self.seconds += time.perf_counter() - started
        self.spent += used(facts["pid"]) - before

    def __str__(self) -> str:
        rate, wait, spent = (
            REQUESTS / self.seconds,
            statistics.median(self.waits),
            self.spent / REQUESTS,
        )
        return f"{rate:5.0f}/s p50 {wait * 1e3:5.1f} ms {spent * 1e3:.2f} ms of CPU"


async def messages(facts: Any) -> None:
    print(
        f"GET messages of {TURNS} turns, {facts['bytes'] / 1e3:.0f} kB, {CONNECTIONS} connections"
    )
    ratios, spent = [], []
    for _ in range(ROUNDS):
        bare, ours = Asked("/bare"), Asked("/api/sessions/sess_bench/messages")
        for _ in range(SLICES):
            await bare.slice(facts)
            await ours.slice(facts)
        ratios.append(ours.seconds / bare.seconds)
        spent.append(ours.spent / bare.spent)
        print(
            f"  bare {bare}   ours {ours}   {ratios[-1]:.2f} times the time, {spent[-1]:.2f} the CPU"
        )
    time_ratio, cpu_ratio = statistics.median(ratios), statistics.median(spent)
    print(
        f"  median: {time_ratio:.2f} times the time (aim: at most 2), {cpu_ratio:.2f} times the CPU"
    )


async def searches(facts: Any, sessions: int) -> None:
    rng, words = random.Random(2), facts["words"]
    cases = {
        "the list itself": lambda: "",
        "a rare word": lambda: rng.choice(words[5000:]),
        "a usual word": lambda: rng.choice(words[100:2000]),
        "two usual words": lambda: " ".join(rng.choices(words[100:1000], k=2)),
        "a word of half the sessions": lambda: rng.choice(words[:10]),
    }
    print(
        f"session list with text search over {sessions:,} sessions, one connection (aim: p50 under 50 ms)"
    )
    for title, draw in cases.items():
        took: list[float] = []
        for _ in range(40):
            path = f"/api/sessions?q={urllib.parse.quote(draw())}"
            await ask(facts["port"], path, facts["key"], 1, took)
        p50, p95 = statistics.median(took) * 1e3, statistics.quantiles(took, n=20)[18] * 1e3
        print(f"  {title:30} p50 {p50:6.1f} ms   p95 {p95:6.1f} ms")


def main(sessions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "serve", folder, str(sessions)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = next(line for line in process.stdout if line.startswith("{"))
                facts = json.loads(line)
                asyncio.run(messages(facts))
                asyncio.run(searches(facts, sessions))
            finally:
                process.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2]) / "data", int(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 100_000)
