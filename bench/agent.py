"""A hundred agents that stream at once on one core: do they keep up with their model?

    python bench/agent.py [SESSIONS] [WORDS]

The demo says a word every 20 ms, whether or not anybody keeps up. The limit is the same number of
bare streams of it that nobody writes down. Every word goes through the loop, the log and the store,
and reaches a listener; the lag is how much later that ends, and a server that falls behind shows
more of it with more words."""

import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from open_token.server.agent.model_interface import Message, Request, Text
from open_token.server.agent.models import build_registry, demo
from open_token.server.bus.interface import LogAppended
from open_token.server.config import Limits, ServerConfig
from open_token.server.core.services import Services
from open_token.server.lifecycle import create_first_key, run_services

DELAY = "0.02"


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def bare(config: ServerConfig, env: dict[str, str], sessions: int) -> tuple[float, float]:
    """The model alone."""

    async def one() -> None:
        model = build_registry(config, env).open("demo")
        asked = Request(model="demo", messages=[Message("user", [Text("long")])])
        async for _ in model.stream(asked):
            pass

    started, used = time.perf_counter(), cpu()
    await asyncio.gather(*(one() for _ in range(sessions)))
    return time.perf_counter() - started, cpu() - used


async def served(services: Services, sessions: int) -> tuple[float, float, int]:
    """The same through the server; also how many entries were written."""
    key = await create_first_key(services)
    caller = await services.store.check_key(str(key), services.clock.now())
    assert caller is not None
    names = []
    counts = {"entries": 0, "ended": 0}
    done = asyncio.Event()

    def hear(grown: LogAppended) -> None:
        counts["entries"] += len(grown.entries)
        counts["ended"] += any(entry.kind == "run.ended" for entry in grown.entries)
        if counts["ended"] == sessions:
            done.set()

    for _ in range(sessions):
        written = await services.journal.create(caller.user.id, {"memory_enabled": False})
        names.append(written.entries[0].session_id)
        services.bus.listen(names[-1], hear)
    started, used = time.perf_counter(), cpu()
    await asyncio.gather(
        *(services.chat.send(caller, {"session_id": name, "message": "long"}) for name in names)
    )
    await done.wait()
    return time.perf_counter() - started, cpu() - used, counts["entries"]


async def main(sessions: int, words: int) -> None:
    demo.LONG = words
    env = {"OPEN_TOKEN_DEMO_DELAY": DELAY}
    with tempfile.TemporaryDirectory() as folder:
        config = ServerConfig(data=Path(folder), limits=Limits(runs=sessions))
        alone, alone_used = await bare(config, env, sessions)
        async with run_services(config, env) as services:
            taken, used, entries = await served(services, sessions)
    said, extra = sessions * words, 1e6 * (used - alone_used)
    print(f"{sessions} sessions, {words} words each, a word every {DELAY} s, one core")
    print(f"  bare streams     {alone:6.2f} s  {alone_used:6.2f} s CPU")
    print(f"  through the log  {taken:6.2f} s  {used:6.2f} s CPU  {entries} entries")
    print(f"  it needs {100 * used / alone:.0f} % of the core for the time of the bare streams")
    print(
        f"  lag {100 * (taken / alone - 1):.1f} % (of a core and a disk that may not be ours alone)"
    )
    print(
        f"  {said / taken:,.0f} words/s, {entries / taken:,.0f} entries/s, {extra / entries:.0f} us CPU an entry"
    )


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    given = [int(word) for word in sys.argv[1:3]]
    uvloop.run(main(given[0] if given else 100, given[1] if len(given) > 1 else 500))
