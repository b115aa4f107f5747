"""Whatever people do to agents, at whatever moment: the client, the fold and the rows agree, and
nothing hangs on."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from helpers.server.agent_session import (
    AgentSession,
    FakeTool,
    ScriptedModel,
    Time,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.server.agent.model_interface import ModelError, Piece, Request, TextPiece
from open_token.server.core.runs import LEASE
from open_token.server.errors import ApiError

WORDS = (
    "hello",
    "think",
    "list files",
    "ask",
    "subagent",
    "subagent ask",
    "card",
    "plan",
    "fail",
    "read a, ask, card",
)


class Killed(BaseException):
    """The process dies here."""


class Moody(ScriptedModel):
    """A model that does as it pleases: speaks, calls, asks, fails, dies."""

    def __init__(self, random: Random, deadly: bool) -> None:
        super().__init__()
        self.random, self.deadly, self.count = random, deadly, 0

    async def stream(self, request: Request):  # type: ignore[no-untyped-def]
        self.answers = [self._answer(request)]
        async for piece in super().stream(request):
            await asyncio.sleep(0)
            yield piece

    def _answer(self, request: Request) -> list[Any]:
        self.count += 1
        pieces: list[Piece | Any] = [
            TextPiece(f"word{n} ") for n in range(self.random.randint(0, 5))
        ]
        ask = '{"questions": [{"question": "Q", "options": [{"label": "A"}]}]}'
        for n in range(self.random.choice((0, 0, 1, 2)) if request.depth < 2 else 0):
            name = self.random.choice(
                ("Safe", "Once", "Fails", "AskUserQuestion", "Agent", "Unknown")
            )
            given = {"AskUserQuestion": ask, "Agent": '{"prompt": "p"}'}.get(name, "{}")
            pieces += build_call_pieces(name, f"c{self.count}_{n}", given)
        fate = self.random.random()
        if fate < 0.1:
            pieces.append(ModelError("refused", "request"))
        elif fate < 0.2 and self.deadly:
            pieces.append(Killed())
        return pieces


async def does(room: AgentSession, random: Random, deadly: bool) -> None:
    """Something that a person or fate does."""
    chat, state = room.services.chat, await room.state()
    what = random.choice(("send", "send", "send", "stop", "answer", "compact", "whatif", "wait"))
    try:
        if what == "send":
            await room.send(random.choice(WORDS), wait=False)
        elif what == "stop":
            for _ in range(random.randint(0, 30)):
                await asyncio.sleep(0)
            await chat.stop(room.caller, room.id)
        elif what == "answer" and state.questions:
            name = random.choice(list(state.questions))
            await room.send(
                wait=False, askuser_answer={"tool_call_id": name, "custom": {"0": "so"}}
            )
        elif what == "compact" and not deadly and state.run is None:
            await chat.compact(room.caller, room.id)
        elif what == "whatif":
            await room.send("what if", wait=False, whatif={"from_step": random.randint(0, 4)})
        elif what == "wait":
            await settled(room, deadly)
    except ApiError as refused:
        if refused.status not in (409, 422, 502):
            raise


async def settled(room: AgentSession, deadly: bool) -> None:
    """Until everything is over; workers that died are followed by others.

    A run that was stopped while a worker claimed it is over in the log at once, and in the queue
    when that worker has seen it."""
    while True:
        state = await room.state()
        rows = await room.services.store.runs(room.caller.user.id, room.id)
        has_rows = any(row.status in ("queued", "running") for row in rows)
        if state.run is None and not state.queue and not has_rows:
            return
        working = list(room.services.runner._tasks.values())
        if working:
            await asyncio.wait(working)
        elif deadly:
            room.time.skip(LEASE + 1)
            room.services.runner.wake()
            await asyncio.sleep(0.001)
        else:
            await asyncio.sleep(0.001)


def check_rest(room: AgentSession) -> None:
    """Nothing is left under way."""
    for turn in room.mirror.turns():
        assert turn["status"] != "streaming"
        if turn["status"] != "paused":
            assert {call["status"] for call in turn["tool_calls"]} <= {"done", "error", "cancelled"}


@pytest.mark.parametrize("deadly", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens(
    tmp_path: Path, fakes: Callable[..., None], seed: int, deadly: bool
) -> None:
    async def scenario() -> None:
        random = Random(seed)

        def fails(_: Any) -> Any:
            if deadly and random.random() < 0.3:
                raise Killed
            raise OSError

        tools = [
            FakeTool("Safe", lambda _: "x"),
            FakeTool("Once", lambda _: 1, is_idempotent=False),
            FakeTool("Fails", fails),
        ]
        fakes(Moody(random, deadly), *tools)
        async with open_agent_session(tmp_path, Time(), max_turns=5) as opened:
            room = await opened()
            for _ in range(14):
                await does(room, random, deadly)
            await settled(room, deadly)
            await room.check()
            check_rest(room)
            state = await room.state()
            waits = any(
                question.turn_id in {turn.facts.turn_id for turn in state.path}
                for question in state.questions.values()
            )
            assert (state.session.status == "waiting_for_input") == (
                waits and state.session.status != "interrupted"
            )

    run(scenario())
