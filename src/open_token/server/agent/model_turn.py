"""One model call as one turn: request, streaming into the log, retries of transient errors."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from open_token.model.log_events import Json, NewEvent, merge_deltas
from open_token.model.session_types import to_builtins
from open_token.server.agent import (
    attachments,
    context_usage,
    endings,
    history,
    prompt,
    tool_results,
)
from open_token.server.agent.model_interface import (
    CallArgumentsPiece,
    CallStart,
    FinishPiece,
    Message,
    ModelError,
    Piece,
    Request,
    Text,
    TextPiece,
    ThinkingPiece,
    ToolSpec,
    UsagePiece,
)
from open_token.server.agent.run_context import LoopRef, RunContext
from open_token.server.agent.tool_calls import elapsed_ms
from open_token.server.agent.tools import ask_user_question, subagent
from open_token.session import SessionState, Turn, actions

RETRY_DELAYS = (0.5, 2.0, 8.0)
"""Seconds before a call is retried after a transient error; a provider may ask for more."""
_MAX_DELAY = 60.0
_FLUSH_SECONDS = 0.04
_FLUSH_SIZE = 1024
"""Streamed text is written after this time or at this size, and before any other event."""

WriteEvents = Callable[[list[NewEvent]], Awaitable[object]]


def list_tool_specs(context: RunContext, loop: LoopRef, mode: str) -> list[ToolSpec]:
    """Return the tools that the model is offered; in planning mode it may only ask."""
    specs = []
    for name, tool in context.tools.items():
        is_question = name == ask_user_question.NAME
        if mode == "planning" and not is_question:
            continue
        if is_question and context.request.headless:
            continue
        if name == subagent.NAME and loop.depth >= subagent.MAX_DEPTH:
            continue
        specs.append(tool.spec)
    return specs


async def build_request(
    context: RunContext, loop: LoopRef, state: SessionState, note: str | None = None
) -> Request:
    """Return the request to the model: system prompt, history and tools."""
    messages = history.build_messages(state, loop_id=loop.loop_id, model=context.model.name)
    messages = await tool_results.expand_results(context, messages)
    messages = await attachments.expand_attachments(context, messages)
    if messages and messages[-1].role == "assistant":
        messages.append(Message("user", [Text(note or prompt.CONTINUE)]))
    elif note:
        messages.append(Message("user", [Text(note)]))
    # Providers require that the user begins; an imported conversation may begin otherwise.
    if messages and messages[0].role != "user":
        messages.insert(0, Message("user", [Text(prompt.CONVERSATION_START)]))
    mode = context.request.mode
    schema = None
    memories = []
    if loop.depth == 0:
        schema = context.request.output_schema
        memories = [memory.content for memory in context.memories]
    settings = context.settings
    system = prompt.build_system_prompt(
        mode,
        depth=loop.depth,
        memories=memories,
        schema=schema,
        instructions=settings.instructions,
        skill=context.skill_instructions if loop.depth == 0 else "",
    )
    return Request(
        model=context.model.name,
        messages=[Message("system", [Text(system)]), *messages],
        tools=list_tool_specs(context, loop, mode),
        output_schema=schema,
        mode=mode,
        depth=loop.depth,
        settings=settings,
    )


async def stream_pieces(context: RunContext, request: Request) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of an answer; raise ModelError when the provider is silent for too long."""
    limit = context.services.config.model_timeout
    stream = context.model.stream(request)
    async with contextlib.aclosing(stream):  # type: ignore[type-var]
        while True:
            try:
                async with asyncio.timeout(limit):
                    piece = await anext(stream, None)
            except TimeoutError:
                raise ModelError(f"no response for {limit:g} seconds", "timeout") from None
            if piece is None:
                return
            yield piece


async def run_model_turn(context: RunContext, loop: LoopRef, note: str | None = None) -> None:
    """Run one model turn; raise ModelError when it fails, after retries of transient errors.

    All attempts are one turn. A turn whose request was too long ends as interrupted: the
    conversation can be compacted and sent again, in a turn after the summary.
    """
    turn_id = context.services.clock.name("turn")
    request = await build_request(context, loop, await context.state(), note)
    is_open = False
    for delay in (*RETRY_DELAYS, None):
        try:
            await _AnswerStream(context, loop, turn_id, request).run(opens=not is_open)
            return
        except ModelError as error:
            is_open = True
            if delay is None or not error.is_transient:
                status = "interrupted" if error.kind == "context" else "failed"
                await _end_failed_turn(context, turn_id, str(error), status)
                raise
            await _restart_turn(context, turn_id, error)
            delay = max(delay, error.retry_after or 0)
            await asyncio.sleep(min(delay, _MAX_DELAY))


async def _restart_turn(context: RunContext, turn_id: str, error: ModelError) -> None:
    """Move what a failed attempt streamed out of the way of the next one."""
    # A call whose arguments never became whole is no call.
    streamed = [event for event in context.leftover if event[0] != "tool.called"]
    context.leftover = []
    retried = {"turn_id": turn_id, "failure_reason": str(error), "code": error.kind}
    await context.write([*streamed, ("turn.retried", retried)])


async def _end_failed_turn(context: RunContext, turn_id: str, reason: str, status: str) -> None:
    """End a turn whose model call failed; its text stays, its calls are cancelled."""
    leftover = context.leftover
    context.leftover = []

    def build_events(state: SessionState) -> Iterator[NewEvent]:
        yield from leftover
        for call_id, buffer in state.turns[turn_id].calls.items():
            if buffer.call.status == "pending":
                yield (
                    "tool.status",
                    {
                        "turn_id": turn_id,
                        "tool_call_id": call_id,
                        "status": "cancelled",
                    },
                )
        yield from actions.stop_turn(turn_id, status, reason)

    await context.write(build_events)


def finish_turn(context: RunContext, state: SessionState, turn_id: str) -> list[NewEvent]:
    """Return the events that complete a turn; in planning mode its final text is the plan."""
    turn = state.turns[turn_id]
    events: list[NewEvent] = []
    if state.mode == "planning" and turn.facts.loop_id == "root" and not turn.calls:
        plan = _get_text(turn)
        if plan:
            events.append(
                ("block.added", {"turn_id": turn_id, "block": _build_plan("ready", plan)})
            )
    duration = elapsed_ms(turn.facts.started_at, context.services.clock.now())
    events.append(("turn.ended", {"turn_id": turn_id, "duration_ms": duration}))
    return events


def _get_text(turn: Turn) -> str:
    texts = []
    for buffer in turn.blocks:
        if buffer.block.type == "text":
            texts.append(buffer.snapshot().content or "")
    return "".join(texts)


@dataclass
class _OpenCall:
    """A call whose arguments are still streaming; it is written when they are whole."""

    call: Json
    pieces: list[str] = field(default_factory=list)

    @property
    def is_question(self) -> bool:
        """Whether it asks the user."""
        return bool(self.call["tool_name"] == ask_user_question.NAME)

    def is_whole(self) -> bool:
        """Return whether the arguments are complete."""
        try:
            msgspec.json.decode("".join(self.pieces))
        except (msgspec.DecodeError, RecursionError):
            return False
        return True


class _AnswerStream:
    """Writes the answer of a model into a turn while it streams."""

    def __init__(self, context: RunContext, loop: LoopRef, turn_id: str, request: Request) -> None:
        self.context = context
        self.loop = loop
        self.turn_id = turn_id
        self.request = request
        self.writer = StreamWriter(context.write)
        self.call_ids: dict[str, str] = {}
        """Our ids of calls by those of the provider; they differ if an id is used already."""
        self.open_calls: dict[str, _OpenCall] = {}
        """The calls that are not written yet, by the ids of the provider."""
        self.has_open_thinking = False
        self.is_signed = False
        self.usage: dict[str, int] = {}
        self.finish_reason: str | None = None
        self.length = 0

    async def run(self, *, opens: bool) -> None:
        """Open the turn, write every piece, and end the turn unless it has tool calls."""
        if opens:
            await self.context.write(self._build_start)
        if self.loop.depth == 0:
            self.context.memories_sent = True
        try:
            pieces = stream_pieces(self.context, self.request)
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    await self._add_piece(piece)
            await self.writer.flush()
        finally:
            await self.writer.close()
            self.context.leftover = self.writer.take() + self._build_calls()
        self.context.leftover = []
        await self.context.write(self._build_end)

    async def _add_piece(self, piece: Piece) -> None:
        if isinstance(piece, TextPiece | ThinkingPiece) and self.open_calls:
            events = self._build_calls()
            self.open_calls = {}
            await self.writer.flush(*events)
        if isinstance(piece, TextPiece):
            await self._add_text("text.delta", piece.text)
        elif isinstance(piece, ThinkingPiece):
            await self._add_thinking(piece)
        elif isinstance(piece, CallStart):
            await self._start_call(piece)
        elif isinstance(piece, CallArgumentsPiece) and piece.arguments:
            await self._add_arguments(piece)
        elif isinstance(piece, UsagePiece):
            self.usage = {**self.usage, **piece.usage}
        elif isinstance(piece, FinishPiece):
            self.finish_reason = piece.reason

    async def _add_text(self, kind: str, text: str) -> None:
        if text:
            self.length += len(text)
            await self.writer.add_delta(kind, {"turn_id": self.turn_id, "text": text}, len(text))

    async def _add_thinking(self, piece: ThinkingPiece) -> None:
        """Add thinking; a signature completes a block, and what follows begins another."""
        if piece.text:
            if self.is_signed:
                block = {"type": "thinking", "content": ""}
                event: NewEvent = ("block.added", {"turn_id": self.turn_id, "block": block})
                await self.writer.flush(event)
            self.has_open_thinking = True
            self.is_signed = False
            await self._add_text("thinking.delta", piece.text)
        if piece.signature:
            signature = piece.signature
            await self.writer.flush()
            await self.context.write(lambda state: self._build_signature(state, signature))
            self.has_open_thinking = False
            self.is_signed = True

    async def _start_call(self, piece: CallStart) -> None:
        state = await self.context.state()
        call_id = piece.id
        if not call_id or call_id in state.callers:
            call_id = self.context.services.clock.name("call")
        self.call_ids[piece.id] = call_id
        call: Json = {
            "id": call_id,
            "tool_name": piece.name,
            "display_name": self.context.display_name(piece.name),
        }
        if piece.signature:
            call["signature"] = piece.signature
        await self._write_whole_calls()
        self.open_calls[piece.id] = _OpenCall(call)

    async def _write_whole_calls(self) -> None:
        """Write the calls before another one, as far as their arguments are whole."""
        whole: list[str] = []
        for provider_id, open_call in self.open_calls.items():
            if not open_call.is_whole():
                break
            whole.append(provider_id)
        events = [self._build_call(self.open_calls.pop(provider_id)) for provider_id in whole]
        if events:
            await self.writer.flush(*events)

    async def _add_arguments(self, piece: CallArgumentsPiece) -> None:
        open_call = self.open_calls.get(piece.id)
        if open_call is not None:
            open_call.pieces.append(piece.arguments)
            self.length += len(piece.arguments)
            return
        data = {
            "turn_id": self.turn_id,
            "tool_call_id": self.call_ids[piece.id],
            "delta": piece.arguments,
        }
        self.length += len(piece.arguments)
        await self.writer.add_delta("tool.arguments", data, len(piece.arguments))

    def _build_calls(self, status: str = "pending") -> list[NewEvent]:
        """Return the calls that are not written yet."""
        return [self._build_call(open_call, status) for open_call in self.open_calls.values()]

    def _build_call(self, open_call: _OpenCall, status: str = "pending") -> NewEvent:
        """Return a call with whole arguments; a question of a subagent names its loop."""
        arguments = "".join(open_call.pieces)
        if self.loop.depth and open_call.is_question:
            arguments = ask_user_question.add_source_loop(arguments, self.loop.loop_id)
        call = {**open_call.call, "arguments": arguments, "status": status}
        return "tool.called", {"turn_id": self.turn_id, "call": call}

    def _build_start(self, state: SessionState) -> list[NewEvent]:
        model = self.context.model
        turn: Json = {
            "turn_id": self.turn_id,
            "loop_id": self.loop.loop_id,
            "model": model.name,
            "context_window": self.context.context_window,
        }
        if self.loop.parent_call:
            turn["parent_fork_tool_call_id"] = self.loop.parent_call
        events: list[NewEvent] = [("turn.opened", {"turn": turn})]
        if self.loop.depth == 0:
            events += self._build_mode_change(state)
            if self.context.memories and not self.context.memories_sent:
                refs = []
                for row in self.context.memories:
                    ref = prompt.build_memory_ref(row.content, row.id, row.skill_name)
                    refs.append(to_builtins(ref))
                events.append(("memory.recalled", {"turn_id": self.turn_id, "refs": refs}))
        return events

    def _build_mode_change(self, state: SessionState) -> list[NewEvent]:
        """Return the blocks of the first turn that show a change of mode and the fate of a plan."""
        mode = self.context.request.mode
        if "planning" not in (mode, state.mode):
            return []
        is_changed = mode != state.mode
        plan = _find_ready_plan(state)
        events: list[NewEvent] = []
        blocks: list[Json] = []
        if is_changed:
            events.append(("mode.changed", {"turn_id": self.turn_id, "to": mode}))
            blocks.append({"type": "planning_enter" if mode == "planning" else "planning_exit"})
        if plan is not None:
            blocks.append(_build_plan("approved" if mode == "executing" else "rejected", plan))
        if mode == "planning" and (plan is not None or is_changed):
            blocks.append(_build_plan("drafting"))
        for block in blocks:
            events.append(("block.added", {"turn_id": self.turn_id, "block": block}))
        return events

    def _build_signature(self, state: SessionState, signature: str) -> list[NewEvent]:
        """Add the signature of the provider, which it requires back, to the last thinking."""
        content = ""
        index = None
        if self.has_open_thinking:
            blocks = state.turns[self.turn_id].blocks
            for position in range(len(blocks) - 1, -1, -1):
                if blocks[position].block.type == "thinking":
                    index = position
                    content = blocks[position].snapshot().content
                    break
        block = {"type": "thinking", "content": content, "signature": signature}
        data = {"turn_id": self.turn_id, "block": block, "block_index": index}
        return [("block.added", data)]

    def _build_end(self, state: SessionState) -> list[NewEvent]:
        """Return the usage, with which the model call is complete, and the end of the turn."""
        calls = state.turns[self.turn_id].calls
        status = "pending"
        if not calls and self._asks_first():
            status = "awaiting_answer"
        events = [
            self._build_call(open_call, status if number == 0 else "pending")
            for number, open_call in enumerate(self.open_calls.values())
        ]
        has_calls = bool(calls or events)
        counted: Json = {"turn_id": self.turn_id, "usage": self._get_usage()}
        if self.finish_reason is not None:
            counted["finish_reason"] = self.finish_reason
        notice = endings.describe(self.finish_reason)
        if notice is not None:
            block = {"type": "system_notification", "content": notice}
            events.append(("block.added", {"turn_id": self.turn_id, "block": block}))
        events.append(("usage.counted", counted))
        if not has_calls:
            events += finish_turn(self.context, state, self.turn_id)
        return events

    def _asks_first(self) -> bool:
        """Return whether the first call asks the user: clients show the question at once."""
        first = next(iter(self.open_calls.values()), None)
        if (
            first is None
            or not first.is_question
            or ask_user_question.NAME not in self.context.tools
        ):
            return False
        return ask_user_question.is_valid_question("".join(first.pieces))

    def _get_usage(self) -> dict[str, int]:
        """Return the usage that the provider reported, or an estimate."""
        if self.usage:
            return self.usage
        input_tokens = context_usage.estimate_messages(list(self.request.messages))
        input_tokens += context_usage.estimate_tools(list(self.request.tools))
        output_tokens = (self.length + 3) // 4
        return {"input_tokens": input_tokens, "output_tokens": output_tokens, "estimated": 1}


def _build_plan(status: str, plan: str = "") -> Json:
    return {"type": "plan_status", "content": {"status": status, "plan": plan}}


def _find_ready_plan(state: SessionState) -> str | None:
    """Return the plan that is ready and was neither approved nor rejected."""
    for turn in reversed(state.path):
        for buffer in reversed(turn.blocks):
            if buffer.block.type != "plan_status":
                continue
            content = buffer.block.content
            if isinstance(content, dict) and content.get("status") == "ready":
                return str(content.get("plan", ""))
            return None
    return None


class StreamWriter:
    """Collects the deltas of one turn and writes them in batches, in order."""

    def __init__(self, write: WriteEvents) -> None:
        self._write = write
        self._events: list[NewEvent] = []
        self._size = 0
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    async def add_delta(self, kind: str, data: Json, size: int) -> None:
        """Add a delta; raise the error of an earlier write in the background."""
        if self._error:
            raise self._error
        self._events.append((kind, data))
        self._size += size
        if self._size >= _FLUSH_SIZE:
            await self.flush()
        elif self._timer is None and self._task is None:
            self._start_timer()

    async def flush(self, *more: NewEvent) -> None:
        """Write pending deltas, and further events after them."""
        self._cancel_timer()
        async with self._lock:
            events = self.take()
            events += more
            if events:
                await self._write(events)

    def take(self) -> list[NewEvent]:
        """Return and forget what is not written yet."""
        events = merge_deltas(self._events)
        self._events = []
        self._size = 0
        return events

    async def close(self) -> None:
        """Stop writing in the background."""
        self._cancel_timer()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._start_flush)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_flush(self) -> None:
        self._timer = None
        self._task = asyncio.ensure_future(self._flush_in_background())

    async def _flush_in_background(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            self._error = error  # raised by the next add_delta
        finally:
            self._task = None
            if self._events and self._timer is None:
                self._start_timer()
