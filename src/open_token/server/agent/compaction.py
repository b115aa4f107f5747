"""Compaction: when the window is nearly full, the talk so far becomes a summary; it stays in
history and export."""

import msgspec

from open_token.entries import Json, Step
from open_token.reducer import State, steps
from open_token.server.agent import history, results, streaming, tokens
from open_token.server.agent.calls import milliseconds
from open_token.server.agent.interface import (
    Call,
    Message,
    ModelFault,
    Request,
    Result,
    Text,
    TextPiece,
    Thinking,
)
from open_token.server.agent.work import Spot, Work

PROMPT = (
    "Write a summary of this conversation for the agent that goes on with it and will see nothing else of it: what the "
    "person wants, what was decided, what was done and found, names and values that matter, what is still to be done."
)
"""Said to the model that summarises."""
_SHARE = 0.6
"""Of the window that the transcript to be summarised may take."""
_LONGEST_PART = 4000


async def is_due(work: Work, spot: Spot) -> bool:
    """Is the window so full that the next call should be preceded by a compaction?"""
    state = await work.state()
    told = history.messages(state, loop_id=spot.loop_id, model=work.model.name)
    if len(told) < 2:
        return False
    told = await results.shown(work, told)
    known = tokens.counted(state, spot.loop_id)
    used = max(known or 0, tokens.estimate_messages(told))
    return used > work.services.config.compact_at * work.model.context_window


async def compact(work: Work, spot: Spot, trigger: str) -> str:
    """Put the talk of a loop together as a turn of its own; gives the turn. ModelFault when it
    cannot be done."""
    state = await work.state()
    told = history.messages(state, loop_id=spot.loop_id)
    if not told:
        raise ModelFault("there is nothing to compact", "request")
    before = tokens.counted(state, spot.loop_id) or tokens.estimate_messages(told)
    archived = _archived(state, spot.loop_id)
    turn_id = work.services.clock.name("turn")
    facts: Json = {
        "turn_id": turn_id,
        "loop_id": spot.loop_id,
        "kind": "compaction",
        "role": "system",
    }
    facts |= {"model": work.model.name, "context_window": work.model.context_window}
    facts |= {"parent_fork_tool_call_id": spot.fork} if spot.fork else {}
    await work.write([("turn.opened", {"turn": facts})])
    began = work.services.clock.now()
    try:
        summary = await _summary(work, told)
    except ModelFault as fault:
        await work.write(steps.halted(turn_id, "failed", str(fault)))
        raise
    after = tokens.estimate(summary)
    done: Json = {
        "turn_id": turn_id,
        "compaction_id": work.services.clock.name("compaction"),
        "summary_preview": summary[:200],
        "summary_full": summary,
        "archived_count": archived,
        "tokens_before": before,
        "tokens_after": after,
        "saved_ratio": round(max(0.0, 1 - after / before), 4) if before else 0.0,
        "trigger": trigger,
    }
    took = milliseconds(began, work.services.clock.now())
    ended: Step = ("turn.ended", {"turn_id": turn_id, "duration_ms": took})
    await work.write([("compacted", done), ended])
    return turn_id


def _archived(state: State, loop_id: str) -> int:
    """The turns that the model no longer sees after this."""
    count = 0
    for turn in reversed(state.path):
        if turn.facts.loop_id == loop_id:
            if turn.facts.kind == "compaction" and turn.facts.status == "completed":
                break
            count += 1
    return count


async def _summary(work: Work, told: list[Message]) -> str:
    room = int(work.model.context_window * _SHARE) * 4
    transcript = _fitting([_line(message) for message in told], room)
    asked = Request(
        model=work.model.name,
        messages=[Message("system", [Text(PROMPT)]), Message("user", [Text(transcript)])],
    )
    words = [
        piece.text
        async for piece in streaming.pieces_of(work, asked)
        if isinstance(piece, TextPiece)
    ]
    summary = "".join(words).strip()
    if not summary:
        raise ModelFault("the model gave no summary", "unknown")
    return summary


def _line(message: Message) -> str:
    """A message as a line of a transcript, cut where it is long."""
    parts: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(part.text)
        elif isinstance(part, Call):
            parts.append(f"[calls {part.name} {part.arguments}]")
        elif isinstance(part, Result):
            words = (
                part.content
                if isinstance(part.content, str)
                else msgspec.json.encode(part.content).decode()
            )
            parts.append(f"[{part.name} gave {words}]")
        elif not isinstance(part, Thinking):
            parts.append(f"[{part.media_type}]")
    cut = [
        words if len(words) <= _LONGEST_PART else f"{words[:_LONGEST_PART]} [...]"
        for words in parts
    ]
    return f"{message.role}: {' '.join(cut)}"


def _fitting(lines: list[str], room: int) -> str:
    """The lines that fit: the first one, and as many of the last ones as there is room for."""
    kept: list[str] = []
    left = room - len(lines[0])
    for line in reversed(lines[1:]):
        left -= len(line) + 1
        if left < 0:
            kept.append("[...]")
            break
        kept.append(line)
    return "\n".join([lines[0][:room], *reversed(kept)])
