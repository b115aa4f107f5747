"""The same streaming sessions as bench/roles.py on LangGraph's local server, which keeps everything
in memory.

    python bench/roles_peer.py [SESSIONS ...]

Its graph writes 2,000 words, a hundred a second, each as a custom event; a client reads them as
server-sent events. Its CPU time is that of its one process, which has no database beside it.
`bench/peers.sh` installs it."""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from roles import DELAY, WORDS, cpu_of

from helpers.server.local_services import free_port

PYTHON = Path(__file__).resolve().parent / "out" / "peers" / "langgraph-cli" / "bin" / "python"
GRAPH = f"""
import asyncio
from typing import TypedDict
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph

class State(TypedDict):
    message: str

async def speak(state: State):
    write, words = get_stream_writer(), [f"word{{number}}" for number in range({WORDS})]
    for word in words:
        await asyncio.sleep({DELAY})
        write({{"text": word}})
    return {{"message": " ".join(words)}}

graph = StateGraph(State).add_node("speak", speak).add_edge(START, "speak").compile()
"""


async def up(client: httpx2.AsyncClient) -> None:
    """Wait until it answers."""
    while True:
        try:
            (await client.get("/ok")).raise_for_status()
            return
        except httpx2.HTTPError:
            await asyncio.sleep(0.2)


async def follow(client: httpx2.AsyncClient) -> tuple[int, int]:
    """One run from beginning to end: its events and its words."""
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "agent", "input": {"message": "long"}, "stream_mode": ["custom"]}
    events = words = 0
    async with client.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            events += line.startswith("event:")
            words += line.startswith("data:") and '"text"' in line
    return events, words


async def measured(port: int, pid: int, sizes: list[int]) -> None:
    limits = httpx2.Limits(max_connections=200)
    async with httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", timeout=300, limits=limits
    ) as client:
        await asyncio.wait_for(up(client), 120)
        for sessions in sizes:
            before = cpu_of(pid, has_children=True)
            result = await asyncio.gather(*(follow(client) for _ in range(sessions)))
            used = cpu_of(pid, has_children=True) - before
            events, words = (sum(counts) for counts in zip(*result, strict=True))
            assert words == WORDS * sessions, words
            each, of_all = used / words * 1e6, used / events * 1e6
            print(
                f"{sessions:3} sessions, {events} events, {words} words: CPU {used:.2f} s", end=""
            )
            print(f"; µs a word {each:.0f}, by delivered event {of_all:.0f}", flush=True)


def main(sizes: list[int]) -> None:
    """Start it, measure, end it."""
    if not PYTHON.exists():
        print("LangGraph's server is not installed: sh bench/peers.sh")
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "graph.py").write_text(GRAPH)
        Path(folder, "langgraph.json").write_text(
            '{"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}'
        )
        command = [
            str(PYTHON),
            "-m",
            "langgraph_cli",
            "dev",
            "--no-browser",
            "--no-reload",
            "--port",
            str(port),
        ]
        env = {
            **os.environ,
            "HOME": folder,
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGSMITH_TRACING": "false",
        }
        server = subprocess.Popen(
            [*command, "--n-jobs-per-worker", "60"],
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            asyncio.run(measured(port, server.pid, sizes))
        finally:
            server.terminate()
            server.wait()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 10, 50])
