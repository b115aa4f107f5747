"""Clients that lose their connection at random, again and again, while a session goes on: python
tests/longrun/disconnects.py.

    python tests/longrun/disconnects.py [ROUNDS [SEED]]

Whichever way they came (both dialects over Socket.IO, event streams), each has every event exactly
once in the end. A sender over HTTP loses the stream of its answer just as often: each of its
messages is there once, and it has every event of their runs once."""

import asyncio
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from helpers.server.live_events import (
    ANNA,
    append_events,
    apply_event,
    create_key,
    create_session,
    fold_turns,
    opened,
    read_stored_turns,
    summarize_turns,
    word,
)
from helpers.server.reference_client import ReferenceClient
from helpers.server.socket_server import Client, listening
from open_token.model.log_events import Json, NewEvent
from open_token.server.core.services import Services
from open_token.server.listener import RunningServer
from open_token.session import to_stream_item

WAYS = ("raw", "legacy", "sse")
SENT_TO = "sess_2"
"""The session to which messages are sent over HTTP, and in which an agent answers."""
SENT = ("hello", "think", "list files", "subagent list files")


class Received:
    """What one client received over all its connections."""

    def __init__(self) -> None:
        self.mirror = ReferenceClient()
        self.numbers: list[int] = []
        self.words: dict[tuple[str, int], str] = {}

    def take(self, name: str, payload: Json) -> None:
        apply_event(self.mirror, self.numbers, name, payload)
        for patch in [item["payload"] for item in payload.get("events", ())] or [payload]:
            if patch.get("patch_type") == "add_content":
                place = (patch["turn_id"], patch["data"]["block_index"])
                self.words[place] = self.words.get(place, "") + patch["data"]["text_delta"]


class Listener(Client):
    """A connection that passes on what it receives, until it is lost."""

    def __init__(self, server: RunningServer, token: str, result: Received, transport: str) -> None:
        super().__init__(server.address, token, [transport])
        self.received, self.is_lost = result, False

    def _taking(self, name: str) -> Any:
        def take(payload: Any = None, *_: Any) -> None:
            if (
                not self.is_lost
                and isinstance(payload, dict)
                and name not in ("chat:end", "system:error")
            ):
                self.received.take(name, payload)
            elif not self.is_lost and isinstance(payload, dict) and "turn_id" not in payload:
                apply_event(self.received.mirror, self.received.numbers, name, payload)

        return take


async def writes(services: Services, random: Random, done: asyncio.Event) -> None:
    """A session that goes on until it is done, in steps of all sizes."""
    count = 0
    while not done.is_set():
        count += 1
        turn, called = f"turn_{count}", f"tc_{count}"
        steps: list[NewEvent] = [("run.started", {"run_id": f"run_{count}"}), opened(turn)]
        steps += [word(f"{number} ", turn) for number in range(random.randint(1, 30))]
        steps.append(
            ("tool.called", {"turn_id": turn, "call": {"id": called, "tool_name": "Bash"}})
        )
        steps += [
            ("tool.arguments", {"turn_id": turn, "tool_call_id": called, "delta": "{"})
        ] * random.randint(0, 3)
        steps.append(
            ("tool.result", {"turn_id": turn, "tool_call_id": called, "result": {"a": count}})
        )
        steps += [
            ("turn.ended", {"turn_id": turn}),
            ("run.ended", {"run_id": f"run_{count}", "output": "ok"}),
        ]
        while steps:
            size = random.randint(1, 8)
            await append_events(services, *steps[:size])
            steps = steps[size:]
            await asyncio.sleep(random.choice((0, 0, 0.002)))


async def over_socket(
    server: RunningServer, token: str, result: Received, way: str, random: Random
) -> None:
    """One connection of a live client, and how it is lost."""
    transport = "polling" if random.random() < 0.1 else "websocket"
    client = Listener(server, token, result, transport)
    async with client:
        await client.subscribe(event_format=way, after_sequence=result.mirror.seen, resume=True)
        await asyncio.sleep(random.random() * 0.02)
        client.is_lost = True
        how = random.choice(("politely", "by us", "by the server"))
        if how == "by us" and transport == "websocket":
            client.io.eio.ws._response.connection.transport.abort()
        elif how == "by the server":
            for eio_sid in tuple(server.live.server.eio.sockets):
                server.live.server.abort(eio_sid)


async def over_http(server: RunningServer, token: str, result: Received, until: int) -> None:
    """One event stream, read up to an event and dropped in the middle."""
    headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": str(result.mirror.seen)}
    url = f"{server.address}/api/sessions/sess_1/events"
    async with (
        httpx2.AsyncClient(timeout=30) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                result.take("turn:events", {"events": [json.loads(line[6:])]})
            if result.mirror.seen >= until:
                return


class Sender:
    """One who sends messages over HTTP and resumes the stream of an answer after each loss."""

    def __init__(self, server: RunningServer, token: str, random: Random) -> None:
        self._url = f"{server.address}/api/sessions/{SENT_TO}/messages?stream=true"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._random = random
        self._seen = 0
        self._is_over = True
        self.count = 0
        self.message = ""
        self.numbers: list[int] = []
        """All events that came, of all messages."""

    async def send(self, *, to_the_end: bool = False) -> None:
        """Send the next message, or the last one again if its answer is not whole; lose the
        connection after some events."""
        if self._is_over:
            self.count += 1
            self.message = self._random.choice(SENT)
            self._seen, self._is_over = 0, False
        headers = dict(self._headers)
        if self._seen:
            headers["Last-Event-ID"] = str(self._seen)
        body = {"message": self.message, "client_message_id": f"m{self.count}"}
        left = 10**6 if to_the_end else self._random.randint(0, 12)
        async with (
            httpx2.AsyncClient(timeout=30) as client,
            client.stream("POST", self._url, headers=headers, json=body) as response,
        ):
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    item = json.loads(line[6:])
                    self._seen = item["stream_sequence"]
                    self.numbers.append(self._seen)
                    self._is_over = item["type"] == "chat:end"
                    left -= 1
                if left < 0:
                    return

    async def settle(self) -> None:
        """Have the last answer to its end, for which one whole stream is enough."""
        if not self._is_over:
            await self.send(to_the_end=True)

    async def check(self, services: Services) -> None:
        """Each message once, in order; every event of every run once."""
        state = await services.journal.state(ANNA, SENT_TO)
        entries = await services.store.read_log(ANNA, SENT_TO, 0, 10**7)
        runs = [entry.data["run_id"] for entry in entries if entry.kind == "run.started"]
        assert len(runs) == self.count, "a message was lost, or sent twice"
        assert list(state.sent) == [f"m{number}" for number in range(1, self.count + 1)]
        expected = []
        is_running = False
        for entry in entries:
            is_running = is_running or entry.kind == "run.started"
            if is_running and to_stream_item(entry, state) is not None:
                expected.append(entry.seq)
            if entry.kind == "run.ended":
                is_running = False
        assert self.numbers == expected, "an event of an answer is missing or came twice"


async def settle(server: RunningServer, token: str, result: Received, way: str, final: int) -> None:
    """The last connection: until everything is there."""
    if way == "sse":
        await over_http(server, token, result, final)
        return
    client = Listener(server, token, result, "websocket")
    async with client:
        await client.subscribe(event_format=way, after_sequence=result.mirror.seen, resume=True)
        while result.mirror.seen < final:
            await asyncio.sleep(0.01)


async def disconnects(folder: Path, rounds: int, seed: int) -> tuple[int, int]:
    """So many connections, each of them lost; gives how many events there were, and how many
    messages were sent over HTTP."""
    random = Random(seed)
    limits = {"events_per_minute": 10**9, "requests_per_minute": 10**9}
    async with listening(folder, has_agents=True, **limits) as server:
        services = server.services
        await create_session(services)
        await create_session(services, SENT_TO)
        token, done = await create_key(services), asyncio.Event()
        sender = Sender(server, token, random)
        writing = asyncio.create_task(writes(services, random, done))
        everybody = {way: Received() for way in WAYS}
        for _ in range(rounds):
            way = random.choice((*WAYS, "send"))
            with contextlib.suppress(httpx2.HTTPError):
                if way == "send":
                    await sender.send()
                elif way == "sse":
                    await over_http(
                        server,
                        token,
                        everybody[way],
                        everybody[way].mirror.seen + random.randint(0, 30),
                    )
                else:
                    await over_socket(server, token, everybody[way], way, random)
        done.set()
        await writing
        state = await services.journal.state(ANNA, "sess_1")
        entries = await services.store.read_log(ANNA, "sess_1", 0, 10**7)
        expected = [entry.seq for entry in entries if to_stream_item(entry, state) is not None]
        for way, result in everybody.items():
            await asyncio.wait_for(settle(server, token, result, way, expected[-1]), 60)
        await asyncio.wait_for(sender.settle(), 60)
        await sender.check(services)
        turns = await fold_turns(services)
        assert turns == await read_stored_turns(services)
        for way, result in everybody.items():
            check(way, result, expected, turns)
        return len(expected), sender.count


def check(way: str, result: Received, expected: list[int], turns: list[Any]) -> None:
    """Everything once, and the turns of the log."""
    if way == "legacy":
        assert result.numbers == sorted(set(result.numbers)), "an event came twice"
    else:
        assert result.numbers == expected, "an event is missing or came twice"
    assert summarize_turns(result.mirror.branch()) == turns
    for turn in turns:
        for place, block in enumerate(turn["blocks"]):
            if block["type"] == "text":
                assert result.words[(turn["turn_id"], place)] == block["content"]


if __name__ == "__main__":
    ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    SEED = int(sys.argv[2]) if len(sys.argv) > 2 else Random().randrange(2**32)
    print(f"{ROUNDS} connections lost at random, seed {SEED}", flush=True)
    with tempfile.TemporaryDirectory() as data:
        events, messages = asyncio.run(disconnects(Path(data), ROUNDS, SEED))
    print(
        f"{events} events, each of them once at every client; "
        f"{messages} messages over HTTP, each of them once"
    )
