"""The agent's loop: one model call is one turn; its calls are carried out; then the next, until
there is none.

Where a loop stands is read from the log each time, so it goes on alike after a question, a restart
or a crash."""

import contextlib
from typing import Any

from msgspec import Struct

from open_token.entries import Json, Step
from open_token.reducer import State, Turn, steps
from open_token.server.agent import calls, compaction, streaming
from open_token.server.agent.history import last_words
from open_token.server.agent.interface import ModelFault
from open_token.server.agent.tools import asking, subagents
from open_token.server.agent.tools.interface import ToolFault
from open_token.server.agent.work import Put, Spot, Work
from open_token.turns import ROOT, ContentBlock, ToolCallProjection

_OPEN = ("pending", "awaiting_answer")


class Asks(Struct, frozen=True):
    """A question that the person has to answer before the loop goes on."""

    turn_id: str
    tool_call_id: str
    questions: list[Json]


class Outcome(Struct, frozen=True):
    """How a loop ended."""

    text: str = ""
    finish_reason: str | None = None
    asks: Asks | None = None


async def go_on(work: Work, spot: Spot | None = None, note: str | None = None) -> Outcome:
    """Work from where the log stands until the agent is done, asks, or has had all its turns.

    A note is said to the model behind the history, once: it has answered already and is to answer
    again."""
    spot = spot or Spot()
    while True:
        state = await work.state()
        last = _last(state, spot.loop_id)
        waits = next((turn for turn in reversed(state.path) if _is_open(turn, spot.loop_id)), None)
        if waits is not None:
            asks = await _settle(work, spot, waits.facts.turn_id)
            if asks is not None:
                return Outcome(asks=asks)
            continue
        if last is not None and _is_done(last) and note is None:
            return Outcome(last_words(state, spot.loop_id))
        if _turns_had(state, spot.loop_id) >= work.services.config.max_turns:
            return Outcome(last_words(state, spot.loop_id), "max_turns")
        if work.is_closing():
            raise Put
        await _speak(work, spot, note)
        note = None


async def _speak(work: Work, spot: Spot, note: str | None) -> None:
    """One model call; the conversation is compacted before it when it is too long, or after the
    provider said so."""
    if await compaction.is_due(work, spot):
        with contextlib.suppress(
            ModelFault
        ):  # there is still some room; the next fault tells whether it is enough
            await compaction.compact(work, spot, "auto")
    try:
        await streaming.turn(work, spot, note)
    except ModelFault as fault:
        if fault.kind != "context":
            raise
        await compaction.compact(work, spot, "forced_retry")
        await streaming.turn(work, spot, note)


def _last(state: State, loop_id: str) -> Turn | None:
    return next((turn for turn in reversed(state.path) if turn.facts.loop_id == loop_id), None)


def _is_open(turn: Turn, loop_id: str) -> bool:
    """Has the model spoken, and its turn is not over? One that asked stands before the answer."""
    facts = turn.facts
    return (
        facts.loop_id == loop_id
        and facts.role == "assistant"
        and facts.status in ("streaming", "paused")
    )


def _is_done(turn: Turn) -> bool:
    return turn.facts.role == "assistant" and turn.facts.status == "completed" and not turn.calls


def _turns_had(state: State, loop_id: str) -> int:
    """The model calls of this loop since the person last spoke."""
    count = 0
    for turn in reversed(state.path):
        if turn.facts.role == "user" and turn.facts.loop_id == ROOT:
            break
        count += turn.facts.role == "assistant" and turn.facts.loop_id == loop_id
    return count


async def _settle(work: Work, spot: Spot, turn_id: str) -> Asks | None:
    """Carry out the calls of a turn that wait, in order, and end it; gives the question at which it
    stopped."""
    while True:
        state = await work.state()
        turn = state.turns[turn_id]
        waits = (calling.whole() for calling in turn.calls.values() if calling.call.status in _OPEN)
        call = next(waits, None)
        if call is None:
            await work.write(lambda state: streaming.ending(work, state, turn_id))
            return None
        asks = await _settle_call(work, spot, turn_id, call, state.mode)
        if asks is not None:
            return asks


async def _settle_call(
    work: Work, spot: Spot, turn_id: str, call: ToolCallProjection, mode: str
) -> Asks | None:
    began = work.services.clock.now()
    try:
        if call.tool_name == asking.NAME and call.tool_name in work.tools:
            return Asks(turn_id, call.id, asking.questions_of(calls.arguments_of(call)))
        if call.tool_name == subagents.NAME and call.tool_name in work.tools and mode != "planning":
            outcome = await _subagent(work, spot, call)
            if outcome.asks is not None:
                return outcome.asks
            came = calls.Came(outcome.text)
        else:
            came = await calls.carried_out(work, turn_id, spot.loop_id, call, mode)
    except ToolFault as fault:
        came = calls.failed(str(fault))
    except ModelFault as fault:
        came = calls.failed(f"the subagent failed: {fault}")
    await calls.write_result(work, turn_id, call, came, began)
    return None


async def _subagent(work: Work, spot: Spot, call: ToolCallProjection) -> Outcome:
    """Another loop in the same session: begun with its task, or gone on with."""
    prompt = subagents.prompt_of(calls.arguments_of(call), spot.depth)
    child = Spot(subagents.loop_of(call.id), spot.depth + 1, call.id)
    about: dict[str, Any] = {"loop_id": child.loop_id, "parent_fork_tool_call_id": call.id}
    turn_id = work.services.clock.name("turn")

    def begun(state: State) -> list[Step]:
        if _last(state, child.loop_id) is not None:
            return []
        return steps.user_message(turn_id, [ContentBlock(type="text", content=prompt)], **about)

    await work.write(begun)
    return await go_on(work, child)
