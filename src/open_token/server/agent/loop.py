"""The agent loop: one model call is one turn; its tool calls are executed; then the next turn.

The position of a loop is read from the log each time, so it continues in the same way after a
question, a restart or a crash.
"""

import contextlib
from typing import Any

from msgspec import Struct

from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import ROOT_LOOP, ContentBlock, ToolCallProjection
from open_token.server.agent import compaction, model_turn, tool_calls
from open_token.server.agent.history import get_last_text
from open_token.server.agent.model_interface import ModelError
from open_token.server.agent.run_context import LoopRef, RunContext, RunSuspended
from open_token.server.agent.tools import ask_user_question, subagent
from open_token.server.agent.tools.interface import ToolError
from open_token.session import SessionState, Turn, actions

_OPEN_STATUSES = ("pending", "awaiting_answer")


class PendingQuestion(Struct, frozen=True):
    """A question that the user has to answer before the loop continues."""

    turn_id: str
    tool_call_id: str
    questions: list[Json]


class LoopOutcome(Struct, frozen=True):
    """How a loop ended."""

    text: str = ""
    finish_reason: str | None = None
    question: PendingQuestion | None = None


async def run_loop(
    context: RunContext, loop: LoopRef | None = None, note: str | None = None
) -> LoopOutcome:
    """Run a loop until the agent is done, asks a question, or reaches the limit of turns.

    A note is appended to the history once, for a model that has answered and must answer again.
    """
    loop = loop or LoopRef()
    while True:
        state = await context.state()
        open_turn = _find_open_turn(state, loop.loop_id)
        if open_turn is not None:
            question = await _execute_calls(context, loop, open_turn.facts.turn_id)
            if question is not None:
                return LoopOutcome(question=question)
            continue
        last = _find_last_turn(state, loop.loop_id)
        if last is not None and _is_final_answer(last) and note is None:
            return LoopOutcome(get_last_text(state, loop.loop_id))
        if _count_turns(state, loop.loop_id) >= context.services.config.max_turns:
            return LoopOutcome(get_last_text(state, loop.loop_id), "max_turns")
        if context.is_closing():
            raise RunSuspended
        await _call_model(context, loop, note)
        note = None


async def _call_model(context: RunContext, loop: LoopRef, note: str | None) -> None:
    """Run one model turn; compact the conversation first if needed, or if the provider asks."""
    if await compaction.needs_compaction(context, loop):
        # There is still room in the window: the model call shows whether it is enough.
        with contextlib.suppress(ModelError):
            await compaction.compact(context, loop, "auto")
    try:
        await model_turn.run_model_turn(context, loop, note)
    except ModelError as error:
        if error.kind != "context":
            raise
        await compaction.compact(context, loop, "forced_retry")
        await model_turn.run_model_turn(context, loop, note)


def _find_last_turn(state: SessionState, loop_id: str) -> Turn | None:
    for turn in reversed(state.path):
        if turn.facts.loop_id == loop_id:
            return turn
    return None


def _find_open_turn(state: SessionState, loop_id: str) -> Turn | None:
    """Return the assistant turn that has not ended; one that asked comes before the answer."""
    for turn in reversed(state.path):
        facts = turn.facts
        if facts.loop_id == loop_id and facts.role == "assistant":
            if facts.status in ("streaming", "paused"):
                return turn
    return None


def _is_final_answer(turn: Turn) -> bool:
    return turn.facts.role == "assistant" and turn.facts.status == "completed" and not turn.calls


def _count_turns(state: SessionState, loop_id: str) -> int:
    """Return the number of model calls of a loop since the last user message."""
    count = 0
    for turn in reversed(state.path):
        facts = turn.facts
        if facts.role == "user" and facts.loop_id == ROOT_LOOP:
            break
        if facts.role == "assistant" and facts.loop_id == loop_id:
            count += 1
    return count


async def _execute_calls(
    context: RunContext, loop: LoopRef, turn_id: str
) -> PendingQuestion | None:
    """Execute the open calls of a turn in order, and end it; return a question it stopped at."""
    while True:
        state = await context.state()
        call = _find_open_call(state.turns[turn_id])
        if call is None:
            await context.write(lambda state: model_turn.finish_turn(context, state, turn_id))
            return None
        question = await _execute_call(context, loop, turn_id, call, state.mode)
        if question is not None:
            return question


def _find_open_call(turn: Turn) -> ToolCallProjection | None:
    for buffer in turn.calls.values():
        if buffer.call.status in _OPEN_STATUSES:
            return buffer.snapshot()
    return None


async def _execute_call(
    context: RunContext, loop: LoopRef, turn_id: str, call: ToolCallProjection, mode: str
) -> PendingQuestion | None:
    started_at = context.services.clock.now()
    is_known = call.tool_name in context.tools
    try:
        if call.tool_name == ask_user_question.NAME and is_known:
            arguments = tool_calls.parse_arguments(call)
            questions = ask_user_question.parse_questions(arguments)
            return PendingQuestion(turn_id, call.id, questions)
        if call.tool_name == subagent.NAME and is_known and mode != "planning":
            outcome = await _run_subagent(context, loop, call)
            if outcome.question is not None:
                return outcome.question
            result = tool_calls.CallOutcome(outcome.text)
        else:
            result = await tool_calls.execute_call(context, turn_id, loop.loop_id, call, mode)
    except ToolError as error:
        result = tool_calls.failed_outcome(str(error))
    except ModelError as error:
        result = tool_calls.failed_outcome(f"the subagent failed: {error}")
    await tool_calls.write_result(context, turn_id, call, result, started_at)
    return None


async def _run_subagent(
    context: RunContext, loop: LoopRef, call: ToolCallProjection
) -> LoopOutcome:
    """Start or continue the loop of a subagent in the same session."""
    prompt = subagent.parse_prompt(tool_calls.parse_arguments(call), loop.depth)
    child = LoopRef(subagent.get_loop_id(call.id), loop.depth + 1, call.id)
    position: dict[str, Any] = {"loop_id": child.loop_id, "parent_fork_tool_call_id": call.id}
    turn_id = context.services.clock.name("turn")

    def start(state: SessionState) -> list[NewEvent]:
        if _find_last_turn(state, child.loop_id) is not None:
            return []
        blocks = [ContentBlock(type="text", content=prompt)]
        return actions.send_user_message(turn_id, blocks, **position)

    await context.write(start)
    return await run_loop(context, child)
