"""Compaction: when the context window is nearly full, the conversation is summarized.

The original turns stay in the history of the session and in exports.
"""

from typing import Any

import msgspec

from open_token.model.log_events import Json
from open_token.server.agent import context_usage, history, model_turn, tool_results
from open_token.server.agent.model_interface import (
    Attachment,
    Call,
    Media,
    Message,
    ModelError,
    Request,
    Result,
    Text,
    TextPiece,
)
from open_token.server.agent.run_context import LoopRef, RunContext
from open_token.server.agent.tool_calls import elapsed_ms
from open_token.session import SessionState, actions

PROMPT = (
    "Write a summary of this conversation for the agent that goes on with it and will see nothing "
    "else of it: what the person wants, what was decided, what was done and found, names and "
    "values that matter, what is still to be done."
)
"""The instruction to the model that summarizes."""
_TRANSCRIPT_SHARE = 0.6
"""The share of the context window that the transcript may fill."""
_CHARACTERS_PER_TOKEN = 4
_MAX_PART_LENGTH = 4000


async def needs_compaction(context: RunContext, loop: LoopRef) -> bool:
    """Return whether the context window is so full that compaction should come first."""
    state = await context.state()
    messages = history.build_messages(state, loop_id=loop.loop_id, model=context.model.name)
    if len(messages) < 2:
        return False
    messages = await tool_results.expand_results(context, messages)
    counted = context_usage.get_counted_tokens(state, loop.loop_id) or 0
    used = max(counted, context_usage.estimate_messages(messages))
    ratio = context.settings.compaction_ratio or context.services.config.compact_at
    return used > ratio * context.context_window


async def compact(context: RunContext, loop: LoopRef, trigger: str) -> str:
    """Summarize the conversation of a loop in a turn and return the id of the turn.

    Raise ModelError when that is not possible.
    """
    state = await context.state()
    messages = history.build_messages(state, loop_id=loop.loop_id)
    if not messages:
        raise ModelError("there is nothing to compact", "request")
    tokens_before = context_usage.get_counted_tokens(state, loop.loop_id)
    if not tokens_before:
        tokens_before = context_usage.estimate_messages(messages)
    archived_count = _count_archived(state, loop.loop_id)
    turn_id = context.services.clock.name("turn")
    turn: Json = {
        "turn_id": turn_id,
        "loop_id": loop.loop_id,
        "kind": "compaction",
        "role": "system",
        "model": context.model.name,
        "context_window": context.context_window,
    }
    if loop.parent_call:
        turn["parent_fork_tool_call_id"] = loop.parent_call
    # The turn is opened before the model is asked: clients see that something happens, and a crash
    # leaves an open turn, which is recovered like any other.
    await context.write([("turn.opened", {"turn": turn})])
    started_at = context.services.clock.now()
    try:
        summary = await _summarize(context, messages)
    except ModelError as error:
        await context.write(actions.stop_turn(turn_id, "failed", str(error)))
        raise
    tokens_after = context_usage.estimate_text(summary)
    saved_ratio = 0.0
    if tokens_before:
        saved_ratio = round(max(0.0, 1 - tokens_after / tokens_before), 4)
    compacted: Json = {
        "turn_id": turn_id,
        "compaction_id": context.services.clock.name("compaction"),
        "summary_preview": summary[:200],
        "summary_full": summary,
        "archived_count": archived_count,
        "tokens_before": tokens_before,
        "tokens_after": tokens_after,
        "saved_ratio": saved_ratio,
        "trigger": trigger,
    }
    duration = elapsed_ms(started_at, context.services.clock.now())
    ended = {"turn_id": turn_id, "duration_ms": duration}
    # One write: a turn that has ended always has its summary.
    await context.write([("compacted", compacted), ("turn.ended", ended)])
    return turn_id


def _count_archived(state: SessionState, loop_id: str) -> int:
    """Return the number of turns that the model no longer sees after the compaction."""
    count = 0
    for turn in reversed(state.path):
        if turn.facts.loop_id == loop_id:
            if turn.facts.kind == "compaction" and turn.facts.status == "completed":
                break
            count += 1
    return count


async def _summarize(context: RunContext, messages: list[Message]) -> str:
    window = int(context.context_window * _TRANSCRIPT_SHARE)
    lines = [_to_transcript_line(message) for message in messages]
    transcript = _fit_lines(lines, window * _CHARACTERS_PER_TOKEN)
    request = Request(
        model=context.model.name,
        messages=[Message("system", [Text(PROMPT)]), Message("user", [Text(transcript)])],
    )
    pieces = []
    async for piece in model_turn.stream_pieces(context, request):
        if isinstance(piece, TextPiece):
            pieces.append(piece.text)
    summary = "".join(pieces).strip()
    if not summary:
        raise ModelError("the model returned no summary", "unknown")
    return summary


def _to_transcript_line(message: Message) -> str:
    """Return a message as a line of a transcript; long parts are cut."""
    parts: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(part.text)
        elif isinstance(part, Call):
            parts.append(f"[calls {part.name} {part.arguments}]")
        elif isinstance(part, Result):
            parts.append(f"[{part.name} gave {_to_text(part.content)}]")
        elif isinstance(part, Media):
            parts.append(f"[{part.media_type}]")
        elif isinstance(part, Attachment):
            parts.append(f"[file {part.path or part.name}]")
    return f"{message.role}: {' '.join(_cut_part(part) for part in parts)}"


def _to_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return msgspec.json.encode(content).decode()


def _cut_part(text: str) -> str:
    if len(text) <= _MAX_PART_LENGTH:
        return text
    return f"{text[:_MAX_PART_LENGTH]} [...]"


def _fit_lines(lines: list[str], length: int) -> str:
    """Return the first line, and as many of the last lines as fit into a length."""
    last_lines: list[str] = []
    remaining = length - len(lines[0])
    for line in reversed(lines[1:]):
        remaining -= len(line) + 1
        if remaining < 0:
            last_lines.append("[...]")
            break
        last_lines.append(line)
    return "\n".join([lines[0][:length], *reversed(last_lines)])
