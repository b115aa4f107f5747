"""The client that browsers use, socket.io-client, against a real server; `make test-full` installs
it."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.live_events import (
    append_events,
    apply_event,
    create_key,
    create_session,
    fold_turns,
    run,
    summarize_turns,
    word,
)
from helpers.server.reference_client import ReferenceClient
from helpers.server.socket_server import EVENTS, listening
from open_token.server.listener import RunningServer

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
const { io } = require("socket.io-client");
const [address, token] = process.argv.slice(1, 3);
const [names, subscription] = process.argv.slice(3, 5).map((text) => JSON.parse(text));
const say = (name, payload) => process.stdout.write(JSON.stringify([name, payload]) + "\\n");
const socket = io(address, { auth: { token }, reconnectionDelay: 10, reconnectionDelayMax: 50 });
let after = 0;
for (const name of names) socket.on(name, (payload) => {
  for (const item of payload.events || [payload]) after = Math.max(after, item.stream_sequence || 0);
  say(name, payload);
});
socket.on("connect_error", (problem) => {
  say("connect_error", { message: problem.message, data: problem.data });
  if (problem.data) socket.close();  // refused; a connection that is cut before it is made is tried again
});
socket.on("disconnect", (reason) => say("disconnect", reason));
socket.on("connect", () => {
  socket.emit("session:subscribe", { session_id: "sess_1", ...subscription, after_sequence: after, resume: after > 0 });
  say("connect", socket.io.engine.transport.name);
});
socket.io.engine.on("upgrade", (transport) => say("upgrade", transport.name));
process.stdin.on("data", async (data) => {
  for (const line of data.toString().split("\\n").filter(Boolean)) {
    const [name, payload] = JSON.parse(line);
    if (name === "close") { socket.close(); process.exit(0); }
    socket.emit(name, payload, (ack) => say("ack", ack));
  }
});
"""


class Node:
    """The client in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.mirror = ReferenceClient()
        self.numbers: list[int] = []
        self.events: list[tuple[str, Any]] = []

    @classmethod
    async def start(
        cls, node: str, server: RunningServer, token: str, **subscription: Any
    ) -> "Node":
        given = [server.address, token, json.dumps(EVENTS), json.dumps(subscription)]
        env = {**os.environ, "NODE_PATH": str(ROOT / ".node.full" / "node_modules")}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            node, "-e", SCRIPT, *given, stdin=pipe, stdout=pipe, env=env, limit=1 << 24
        )
        return cls(process)

    def send(self, name: str, payload: Any = None) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([name, payload]).encode() + b"\n")

    async def until(self, is_so: Callable[[str, Any], bool]) -> Any:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            name, payload = json.loads(line)
            self.events.append((name, payload))
            if name == "turn:events" or (
                isinstance(payload, dict) and "stream_sequence" in payload
            ):
                apply_event(self.mirror, self.numbers, name, payload)
            if is_so(name, payload):
                return payload
        raise AssertionError("the client ended")

    async def first(self, name: str) -> Any:
        return await self.until(lambda known, _: known == name)

    async def close(self) -> None:
        self.send("close")
        await asyncio.wait_for(self._process.wait(), 60)


@pytest.fixture
def node(tool: Callable[[str], str]) -> str:
    if not (ROOT / ".node.full" / "installed").exists():
        pytest.skip("socket.io-client is not installed; `make test-full` does it")
    return tool("node")


@pytest.mark.parametrize("dialect", ["raw", "legacy"])
def test_an_exchange_in_both_dialects(tmp_path: Path, node: str, dialect: str) -> None:
    """It begins by polling and goes over to a WebSocket, as browsers do."""

    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            client = await Node.start(
                node, server, await create_key(server.services), event_format=dialect
            )
            await client.first("connect")
            client.send("chat:send", {"session_id": "sess_1", "message": "one two three"})
            end = await client.first("chat:end")
            assert end["result"]["result"] == "one two three"
            names = {name for name, _ in client.events} - {"ack", "connect", "upgrade"}
            turns = {"chat:start", "turn:start", "turn:patch", "turn:end"}
            assert names == ({"turn:events"} if dialect == "raw" else turns) | {"chat:end"}
            assert summarize_turns(client.mirror.branch()) == await fold_turns(server.services)
            client.send("chat:stop", {"session_id": "sess_1"})
            await client.until(
                lambda name, payload: (
                    name == "ack" and payload == {"status": "ok", "stopped": False}
                )
            )
            await client.close()

    run(test())


@pytest.mark.spec("socket-authentication")
def test_a_refused_key_is_a_connect_error(tmp_path: Path, node: str) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            client = await Node.start(node, server, "nobody")
            assert (await client.first("connect_error"))["data"] == {"code": "unauthorized"}
            await client.close()

    run(test())


@pytest.mark.parametrize("dialect", ["raw", "legacy"])
def test_node_client_reconnects_and_gets_each_event_once(
    tmp_path: Path, node: str, dialect: str
) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            client = await Node.start(
                node, server, await create_key(server.services), event_format=dialect
            )
            await client.first("connect")
            client.send("chat:stop", {"session_id": "sess_1"})
            await client.first("ack")
            await append_events(server.services, ("turn.opened", {"turn": {"turn_id": "turn_1"}}))
            for number in range(30):
                await append_events(server.services, word(f"{number} "))
                if number % 10 == 5:
                    await client.until(lambda name, payload: client.mirror.seen > 1)
                    for eio_sid in tuple(server.live.server.eio.sockets):
                        server.live.server.abort(eio_sid)
            await append_events(server.services, ("turn.ended", {"turn_id": "turn_1"}))
            await client.until(lambda name, payload: client.mirror.seen == 33)
            assert [name for name, _ in client.events].count("disconnect") >= 1
            assert client.numbers == sorted(set(client.numbers))
            assert dialect == "legacy" or client.numbers == list(range(2, 34))
            assert summarize_turns(client.mirror.branch()) == await fold_turns(server.services)
            await client.close()

    run(test())
