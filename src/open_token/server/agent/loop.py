"""The agent loop: one model call is one turn; its tool calls are executed; then the next turn.

The position of a loop is read from the log each time, so it continues in the same way after a
question, a restart or a crash.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import ROOT_LOOP, ContentBlock, ToolCallProjection
from open_token.server.agent import (
    approvals,
    budgets,
    compaction,
    endings,
    model_turn,
    tool_calls,
)
from open_token.server.agent.history import get_last_text
from open_token.server.agent.model_interface import ModelError
from open_token.server.agent.run_context import LoopRef, RunContext, RunSuspended
from open_token.server.agent.tools import ask_user_question, subagent
from open_token.server.agent.tools.client_side import ClientSideTool
from open_token.server.agent.tools.interface import ToolError
from open_token.session import SessionState, Turn, actions

_OPEN_STATUSES = ("pending", "awaiting_answer")


class PendingQuestion(Struct, frozen=True):
    """What the user or the client has to answer before the loop continues."""

    turn_id: str
    tool_call_id: str
    questions: list[Json]
    kind: str = "question"
    """See `QuestionAsked`."""


class LoopOutcome(Struct, frozen=True):
    """How a loop ended."""

    text: str = ""
    finish_reason: str | None = None
    questions: tuple[PendingQuestion, ...] = ()


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
            questions = await _execute_calls(context, loop, open_turn.facts.turn_id)
            if questions:
                return LoopOutcome(questions=questions)
            continue
        last = _find_last_turn(state, loop.loop_id)
        if last is not None and _is_final_answer(last) and note is None:
            reason = endings.find_cut(last.facts.finish_reason)
            return LoopOutcome(get_last_text(state, loop.loop_id), reason)
        reached = await _find_reached_limit(context, loop, state)
        if reached is not None:
            return LoopOutcome(get_last_text(state, loop.loop_id), reached)
        if context.is_closing():
            raise RunSuspended
        await _call_model(context, loop, note)
        note = None


async def _find_reached_limit(
    context: RunContext, loop: LoopRef, state: SessionState
) -> str | None:
    """Return the limit that ends the loop before another model call: its reason to finish."""
    max_turns = context.settings.max_turns or context.services.config.max_turns
    if _count_turns(state, loop.loop_id) >= max_turns:
        return "max_turns"
    if await budgets.is_exhausted(context, state):
        return "budget"
    return None


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
) -> tuple[PendingQuestion, ...]:
    """Execute the open calls of a turn in order, and end it; return the questions it stopped at."""
    while True:
        state = await context.state()
        together = _list_parallel_calls(context, state.turns[turn_id], state.mode)
        if len(together) > 1:
            await _execute_together(context, loop, turn_id, together, state)
            continue
        call = _find_open_call(state.turns[turn_id])
        if call is None:
            await context.write(lambda state: model_turn.finish_turn(context, state, turn_id))
            return ()
        question = await _execute_call(context, loop, turn_id, call, state)
        if not question:
            continue
        if question[0].kind == "client_tool":
            return tuple(_list_client_calls(context, state.turns[turn_id], state.mode))
        return question


def _list_parallel_calls(context: RunContext, turn: Turn, mode: str) -> list[ToolCallProjection]:
    """Return the open calls up to the first one that may change something, or has to wait."""
    together: list[ToolCallProjection] = []
    for buffer in turn.calls.values():
        call = buffer.snapshot()
        if call.status not in _OPEN_STATUSES:
            continue
        tool = context.tools.get(call.tool_name)
        if (
            mode == "planning"
            or call.status != "pending"
            or not getattr(tool, "is_read_only", False)
        ):
            break
        try:
            arguments = tool_calls.parse_arguments(call)
        except ToolError:
            break
        if context.settings.decide(call.tool_name, arguments) != "allow":
            break
        together.append(call)
    return together


async def _execute_together(
    context: RunContext,
    loop: LoopRef,
    turn_id: str,
    calls: list[ToolCallProjection],
    state: SessionState,
) -> None:
    """Execute calls at the same time; each result is written when it is there."""
    tasks = []
    for call in calls:
        work = _execute_call(context, loop, turn_id, call, state)
        tasks.append(asyncio.ensure_future(work))
    try:
        await asyncio.gather(*tasks)
    finally:
        # After an error, or when the run is stopped, no call continues unobserved.
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _list_client_calls(context: RunContext, turn: Turn, mode: str) -> Iterator[PendingQuestion]:
    """Yield the open calls of a turn that the client has to execute: it gets them all at once."""
    for buffer in turn.calls.values():
        call = buffer.snapshot()
        if call.status not in _OPEN_STATUSES:
            continue
        question = _ask_client(context, turn.facts.turn_id, call, mode)
        if question is not None:
            yield question


def _ask_client(
    context: RunContext, turn_id: str, call: ToolCallProjection, mode: str
) -> PendingQuestion | None:
    """Return what the client has to answer; None when it is not to execute the call."""
    if not isinstance(context.tools.get(call.tool_name), ClientSideTool) or mode == "planning":
        return None
    try:
        arguments = tool_calls.parse_arguments(call)
    except ToolError:
        return None
    if context.settings.decide(call.tool_name, arguments) == "deny":
        return None
    return PendingQuestion(turn_id, call.id, [], "client_tool")


def _find_open_call(turn: Turn) -> ToolCallProjection | None:
    for buffer in turn.calls.values():
        if buffer.call.status in _OPEN_STATUSES:
            return buffer.snapshot()
    return None


async def _execute_call(
    context: RunContext, loop: LoopRef, turn_id: str, call: ToolCallProjection, state: SessionState
) -> tuple[PendingQuestion, ...]:
    """Execute a call and write its result; return the questions that come before it."""
    started_at = context.services.clock.now()
    mode = state.mode
    is_known = call.tool_name in context.tools
    try:
        if call.tool_name == ask_user_question.NAME and is_known:
            arguments = tool_calls.parse_arguments(call)
            questions = ask_user_question.parse_questions(arguments)
            return (PendingQuestion(turn_id, call.id, questions),)
        if is_known and mode != "planning":
            approval = approvals.check_call(context, call, state)
            if approval:
                return (PendingQuestion(turn_id, call.id, approval, "approval"),)
        client_call = _ask_client(context, turn_id, call, mode)
        if client_call is not None:
            return (client_call,)
        if call.tool_name == subagent.NAME and is_known and mode != "planning":
            outcome = await _run_subagent(context, loop, call)
            if outcome.questions:
                return outcome.questions
            notice = endings.describe(outcome.finish_reason)
            text = f"{outcome.text}\n\n[{notice}]" if notice else outcome.text
            result = tool_calls.CallOutcome(text)
        else:
            result = await tool_calls.execute_call(context, turn_id, loop.loop_id, call, mode)
    except ToolError as error:
        result = tool_calls.failed_outcome(str(error))
    except ModelError as error:
        result = tool_calls.failed_outcome(f"the subagent failed: {error}")
    await tool_calls.write_result(context, turn_id, call, result, started_at)
    return ()


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
