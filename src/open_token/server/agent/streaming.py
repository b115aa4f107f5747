"""One model call as one turn: asked, streamed into the log, tried again when a fault may pass."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

from open_token.entries import Json, Step
from open_token.reducer import State, steps
from open_token.server.agent import history, prompt, results, tokens
from open_token.server.agent.calls import milliseconds
from open_token.server.agent.interface import (
    CallBegun,
    CallPiece,
    Counted,
    Message,
    ModelFault,
    Piece,
    Request,
    Text,
    TextPiece,
    ThinkingPiece,
    ToolSpec,
)
from open_token.server.agent.scribe import Scribe
from open_token.server.agent.tools import asking, subagents
from open_token.server.agent.work import Spot, Work
from open_token.turns import plain

BACKOFF = (0.5, 2.0, 8.0)
"""Seconds before a call that failed for a passing reason is tried again; a provider may ask for
more."""
_LONGEST_PAUSE = 60.0


def specs(work: Work, spot: Spot, mode: str) -> list[ToolSpec]:
    """The tools that the model is offered: in planning mode none, but it may ask."""
    return [
        tool.spec
        for name, tool in work.tools.items()
        if not (mode == "planning" and name != asking.NAME)
        and not (name == subagents.NAME and spot.depth >= subagents.DEEPEST)
        and not (name == asking.NAME and work.order.headless)
    ]


async def request(work: Work, spot: Spot, state: State, note: str | None = None) -> Request:
    """What the model is asked: who it is, what was said, what it can do."""
    told = await results.shown(
        work, history.messages(state, loop_id=spot.loop_id, model=work.model.name)
    )
    if told and told[-1].role == "assistant":
        told.append(Message("user", [Text(note or prompt.GO_ON)]))
    elif note:
        told.append(Message("user", [Text(note)]))
    if (
        told and told[0].role != "user"
    ):  # providers want the person to begin, and an imported talk may not
        told.insert(0, Message("user", [Text(prompt.BEGINS)]))
    mode = work.order.mode
    schema = work.order.output_schema if spot.depth == 0 else None
    words = [memory.content for memory in work.memories] if spot.depth == 0 else []
    first = prompt.system_text(mode, depth=spot.depth, memories=words, schema=schema)
    return Request(
        model=work.model.name,
        messages=[Message("system", [Text(first)]), *told],
        tools=specs(work, spot, mode),
        output_schema=schema,
        mode=mode,
        depth=spot.depth,
    )


async def pieces_of(work: Work, asked: Request) -> AsyncGenerator[Piece, None]:
    """The pieces of an answer; a provider that is silent for too long has failed."""
    limit = work.services.config.model_timeout
    async with contextlib.aclosing(work.model.stream(asked)) as stream:  # type: ignore[type-var]
        while True:
            try:
                async with asyncio.timeout(limit):
                    piece = await anext(stream, None)
            except TimeoutError:
                raise ModelFault(
                    f"the model said nothing for {limit:g} seconds", "timeout"
                ) from None
            if piece is None:
                return
            yield piece


async def turn(work: Work, spot: Spot, note: str | None = None) -> None:
    """Have the model answer; raises ModelFault when it does not, after as many tries as make
    sense."""
    for pause in (*BACKOFF, None):
        turn_id = work.services.clock.name("turn")
        state = await work.state()
        asked = await request(work, spot, state, note)
        try:
            await _Answer(work, spot, turn_id, asked).take()
            return
        except ModelFault as fault:
            gives_up = pause is None or not fault.is_passing
            await _break(work, turn_id, str(fault))
            if gives_up:
                raise
            await asyncio.sleep(min(max(pause or 0, fault.retry_after or 0), _LONGEST_PAUSE))


async def _break(work: Work, turn_id: str, reason: str) -> None:
    """End a turn whose model call failed: what was said stays, its calls are not carried out."""
    said, work.leftover = work.leftover, []

    def broken(state: State) -> Iterator[Step]:
        yield from said
        for name, calling in state.turns[turn_id].calls.items():
            if calling.call.status == "pending":
                yield (
                    "tool.status",
                    {"turn_id": turn_id, "tool_call_id": name, "status": "cancelled"},
                )
        yield from steps.halted(turn_id, "failed", reason)

    await work.write(broken)


def ending(work: Work, state: State, turn_id: str) -> list[Step]:
    """The end of a turn that came to its end; in planning mode the last words are the plan."""
    turn = state.turns[turn_id]
    made: list[Step] = []
    is_plan = state.mode == "planning" and turn.facts.loop_id == "root" and not turn.calls
    words = "".join(
        growing.whole().content or "" for growing in turn.blocks if growing.block.type == "text"
    )
    if is_plan and words:
        made.append(("block.added", {"turn_id": turn_id, "block": _plan("ready", words)}))
    took = milliseconds(turn.facts.started_at, work.services.clock.now())
    return [*made, ("turn.ended", {"turn_id": turn_id, "duration_ms": took})]


@dataclass
class _Held:
    """A call whose arguments still come."""

    id: str
    call: Json
    pieces: list[str] = field(default_factory=list)


class _Answer:
    """The answer of a model while it streams."""

    def __init__(self, work: Work, spot: Spot, turn_id: str, asked: Request) -> None:
        self.work, self.spot, self.turn_id, self.asked = work, spot, turn_id, asked
        self.scribe = Scribe(work.write)
        self.names: dict[str, str] = {}
        """The ids of calls: the provider's, and ours where theirs is taken."""
        self.question: _Held | None = None
        """A question that the model is about to ask: told when it is whole."""
        self.has_thought = self.is_signed = False
        self.usage: dict[str, int] = {}
        self.length = 0

    async def take(self) -> None:
        """Open the turn, take every piece, and say what it took; the turn is over unless it calls
        tools."""
        await self.work.write(self._opened)
        self.work.memories_told = self.work.memories_told or self.spot.depth == 0
        try:
            async with contextlib.aclosing(pieces_of(self.work, self.asked)) as pieces:
                async for piece in pieces:
                    await self._take(piece)
            await self.scribe.flush()
        finally:
            await self.scribe.close()
            self.work.leftover = self.scribe.take() + self._asking("pending")
        self.work.leftover = []
        await self.work.write(self._counted)

    async def _take(self, piece: Piece) -> None:
        if self.question is not None and not isinstance(piece, Counted):
            if isinstance(piece, CallPiece) and piece.id == self.question.id:
                self.question.pieces.append(piece.arguments)
                self.length += len(piece.arguments)
                return
            asked, self.question = self._asking("pending"), None
            await self.scribe.flush(*asked)
        if isinstance(piece, TextPiece):
            await self._words("text.delta", piece.text)
        elif isinstance(piece, ThinkingPiece):
            await self._thought(piece)
        elif isinstance(piece, CallBegun):
            await self._call(piece)
        elif isinstance(piece, CallPiece) and piece.arguments:
            data = {
                "turn_id": self.turn_id,
                "tool_call_id": self.names[piece.id],
                "delta": piece.arguments,
            }
            self.length += len(piece.arguments)
            await self.scribe.piece("tool.arguments", data, len(piece.arguments))
        elif isinstance(piece, Counted):
            self.usage = {**self.usage, **piece.usage}

    async def _words(self, kind: str, text: str) -> None:
        if text:
            self.length += len(text)
            await self.scribe.piece(kind, {"turn_id": self.turn_id, "text": text}, len(text))

    async def _thought(self, piece: ThinkingPiece) -> None:
        """More of a thought; one that is signed is whole, and what follows is another."""
        if piece.text:
            if self.is_signed:
                empty = {"type": "thinking", "content": ""}
                await self.scribe.flush(("block.added", {"turn_id": self.turn_id, "block": empty}))
            self.has_thought, self.is_signed = True, False
            await self._words("thinking.delta", piece.text)
        if piece.signature:
            await self.scribe.flush()
            await self.work.write(lambda state: self._signed(state, piece.signature or ""))
            self.has_thought, self.is_signed = False, True

    async def _call(self, piece: CallBegun) -> None:
        state = await self.work.state()
        taken = not piece.id or piece.id in state.callers
        name = self.names[piece.id] = self.work.services.clock.name("call") if taken else piece.id
        call: Json = {
            "id": name,
            "tool_name": piece.name,
            "display_name": self.work.display_name(piece.name),
        }
        call |= {"signature": piece.signature} if piece.signature else {}
        if piece.name == asking.NAME and piece.name in self.work.tools:
            self.question = _Held(piece.id, call)
            return
        await self.scribe.flush(("tool.called", {"turn_id": self.turn_id, "call": call}))

    def _asking(self, status: str) -> list[Step]:
        """The call that asks the person, whole; it says for which loop when that is not the one
        they talk with."""
        if self.question is None:
            return []
        words = "".join(self.question.pieces)
        words = asking.of_loop(words, self.spot.loop_id) if self.spot.depth else words
        call = {**self.question.call, "arguments": words, "status": status}
        return [("tool.called", {"turn_id": self.turn_id, "call": call})]

    def _opened(self, state: State) -> list[Step]:
        model, fork = self.work.model, self.spot.fork
        facts: Json = {"turn_id": self.turn_id, "loop_id": self.spot.loop_id, "model": model.name}
        facts |= {"context_window": model.context_window} | (
            {"parent_fork_tool_call_id": fork} if fork else {}
        )
        made: list[Step] = [("turn.opened", {"turn": facts})]
        if self.spot.depth == 0:
            made += self._mode(state)
            if self.work.memories and not self.work.memories_told:
                refs = [
                    plain(prompt.preview(row.content, row.id, row.skill_name))
                    for row in self.work.memories
                ]
                made.append(("memory.recalled", {"turn_id": self.turn_id, "refs": refs}))
        return made

    def _mode(self, state: State) -> list[Step]:
        """The agent is set to plan, or to do what was planned: the first turn shows so, and what
        becomes of a plan."""
        to = self.work.order.mode
        if "planning" not in (to, state.mode):
            return []
        plan = _last_plan(state)
        blocks: list[Json] = []
        if to != state.mode:
            blocks.append({"type": "planning_enter" if to == "planning" else "planning_exit"})
        if plan is not None:
            blocks.append(_plan("approved" if to == "executing" else "rejected", plan))
        if to == "planning" and (plan is not None or to != state.mode):
            blocks.append(_plan("drafting"))
        changed: list[Step] = (
            [("mode.changed", {"turn_id": self.turn_id, "to": to})] if to != state.mode else []
        )
        return changed + [
            ("block.added", {"turn_id": self.turn_id, "block": block}) for block in blocks
        ]

    def _signed(self, state: State, signature: str) -> list[Step]:
        """The thought that was just had, with the provider's signature, which it wants back with
        it."""
        blocks = state.turns[self.turn_id].blocks if self.has_thought else []
        place = next(
            (n for n in range(len(blocks) - 1, -1, -1) if blocks[n].block.type == "thinking"), None
        )
        words = blocks[place].whole().content if place is not None else ""
        block = {"type": "thinking", "content": words, "signature": signature}
        return [("block.added", {"turn_id": self.turn_id, "block": block, "block_index": place})]

    def _counted(self, state: State) -> list[Step]:
        """What the answer took: with this entry the model's part of the turn is complete."""
        usage = self.usage
        if not usage:
            took = tokens.estimate_messages(list(self.asked.messages)) + tokens.estimate_tools(
                list(self.asked.tools)
            )
            usage = {"input_tokens": took, "output_tokens": (self.length + 3) // 4, "estimated": 1}
        calls = state.turns[self.turn_id].calls
        is_asked = (
            self.question is not None and not calls and asking.is_one("".join(self.question.pieces))
        )
        made = self._asking("awaiting_answer" if is_asked else "pending")
        is_over = not calls and not made
        made.append(("usage.counted", {"turn_id": self.turn_id, "usage": usage}))
        return made + ending(self.work, state, self.turn_id) if is_over else made


def _plan(status: str, plan: str = "") -> Json:
    return {"type": "plan_status", "content": {"status": status, "plan": plan}}


def _last_plan(state: State) -> str | None:
    """The plan that is ready, and of which nobody has said yet what becomes of it."""
    blocks = (growing.block for turn in reversed(state.path) for growing in reversed(turn.blocks))
    last = next((block.content for block in blocks if block.type == "plan_status"), None)
    return (
        str(last.get("plan", ""))
        if isinstance(last, dict) and last.get("status") == "ready"
        else None
    )
