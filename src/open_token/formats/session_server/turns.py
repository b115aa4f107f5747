"""Turns of a session server as events: blocks, calls, results, and subagents in their calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_first,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.messages import Message, TextPart, parse_parts, unpack_output
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.repeated_history import split_message
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Role, Usage, Visibility
from open_token.model.patches import Aside

_COMPACTION_FIELDS = (
    "compaction_id",
    "archived_count",
    "tokens_before",
    "tokens_after",
    "saved_ratio",
    "trigger",
)
_MAX_DEPTH = 32
_USAGE_FIELDS = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)


@dataclass(slots=True)
class _Loop:
    """The agent loop that turns belong to: the root, or a subagent with its span."""

    span: str | None = None
    user: str | None = None
    name: str = "assistant"
    depth: int = 0


@dataclass(slots=True)
class _Turn:
    """One turn that is being added."""

    body: JsonObject
    loop: _Loop
    place: str
    actor: str
    ts: str | None
    usage: Usage | None = None
    event: Event | None = None
    calls: dict[str, JsonObject] = field(default_factory=dict)
    added_calls: set[str] = field(default_factory=set)
    answered_calls: set[str] = field(default_factory=set)

    def take_usage(self) -> Usage | None:
        usage = self.usage
        self.usage = None
        return usage


class TurnWriter:
    """Adds the turns of a session in order; those of a subagent go into the call that started it.

    `abandoned` holds the positions of turns on abandoned branches.
    """

    def __init__(
        self, draft: Draft, turns: list[JsonObject], abandoned: set[int] | None = None
    ) -> None:
        self._draft = draft
        self._turns = turns
        self._abandoned = abandoned or set()
        self._done: set[int] = set()
        self._models: dict[str, str] = {}
        self._answers: dict[str, int] = {}
        """The turn in which the person answers a call."""
        self._subagent_turns: dict[str, list[int]] = {}
        """The turns of the subagent that a call started."""
        call_ids = {as_text(call.get("id")) for turn in turns for call in _list_calls(turn)}
        for number, turn in enumerate(turns):
            model = as_text(turn.get("model"))
            if model:
                self._models.setdefault(str(turn.get("loop_id")), model)
            call_id = as_text(turn.get("parent_fork_tool_call_id"))
            if call_id and call_id in call_ids:
                self._subagent_turns.setdefault(call_id, []).append(number)
            for answered in _list_answered_calls(turn):
                self._answers[answered] = number
        self._nested = {number for numbers in self._subagent_turns.values() for number in numbers}
        self._loops: dict[str, _Loop] = {}
        self._branch_start: int | None = None

    def add_all(self) -> None:
        """Add all turns."""
        root = _Loop()
        for number, turn in enumerate(self._turns):
            if number in self._nested or number in self._done:
                continue
            self._switch_branch(number)
            self._add_turn(number, self._get_loop(turn, root))
        for number, turn in enumerate(self._turns):
            if number not in self._done:  # a cycle of subagents
                self._add_turn(number, self._get_loop(turn, root))
        self._switch_branch(None)

    def _switch_branch(self, number: int | None) -> None:
        """Begin or end a branch: consecutive abandoned turns are one."""
        is_abandoned = number is not None and number in self._abandoned
        if is_abandoned and self._branch_start is None:
            self._branch_start = self._draft.count
        elif not is_abandoned and self._branch_start is not None:
            actor = self._draft.get_actor("model", "assistant")
            data = {"kind": "abandoned_branch"}
            self._draft.drop_branch(self._branch_start, self._draft.count, data, actor)
            self._branch_start = None

    def _get_loop(self, turn: JsonObject, root: _Loop) -> _Loop:
        """Return the loop of a turn; one that no known call started gets a span of its own."""
        name = as_text(turn.get("loop_id")) or "root"
        if name == "root":
            return root
        if name not in self._loops:
            call_id = as_text(turn.get("parent_fork_tool_call_id"))
            ts = to_utc(turn.get("started_at"))
            self._loops[name] = self._start_loop(name, call_id, root, ts, None)
        return self._loops[name]

    def _start_loop(
        self, name: str, call_id: str | None, outer: _Loop, ts: str | None, user: str | None
    ) -> _Loop:
        user = user or self._draft.get_actor("model", outer.name)
        loop = _Loop(outer.span, user, name, outer.depth + 1)
        if self._draft.subagents == "none":
            return loop
        data: JsonObject = {"kind": "subagent", "name": name}
        if outer.span:
            data["parent_span"] = outer.span
        if self._draft.subagents == "reference":
            data["reference"] = name
        actor = self._get_model_actor(name, self._models.get(name))
        loop.span = self._draft.start_span(data, actor, ts=ts, call=call_id)
        return loop

    def _add_turn(self, number: int, loop: _Loop) -> None:
        self._done.add(number)
        body = self._turns[number]
        if isinstance(body, Aside):
            self._draft.add_annotation(dict(body), ts=to_utc(body.at))
            return
        place = f"turn {number + 1}"
        if loop.depth and self._draft.subagents != "inline":
            self._draft.note_omission(
                "subagent", place, f"what a subagent did (subagents={self._draft.subagents})"
            )
            return
        turn = self._create_turn(body, loop, place)
        if body.get("kind") == "compaction":
            self._add_compaction(turn)
            return
        if body.get("kind") not in (None, "message"):
            self._draft.note_omission(
                "unknown-record",
                place,
                f"turn {format_kind(body.get('kind'))}, exported as a message",
            )
        self._add_attempts(turn)
        blocks = body.get("blocks")
        if isinstance(blocks, list):
            for block in blocks:
                self._add_block(block, turn)
        # A turn may have calls that no block refers to.
        self._add_remaining_calls(turn)
        for call_id, call in turn.calls.items():
            self._add_result(call_id, call, turn)
        self._add_turn_facts(turn)

    def _create_turn(self, body: JsonObject, loop: _Loop, place: str) -> _Turn:
        role = body.get("role")
        if role == "user":
            actor = loop.user or self._draft.get_actor("human", "user")
        elif role == "system":
            actor = self._draft.get_actor("system", "system")
        else:
            actor = self._get_model_actor(loop.name, as_text(body.get("model")))
        turn = _Turn(body, loop, place, actor, to_utc(body.get("started_at")))
        if turn.ts:
            self._draft.conversation.setdefault("started_at", turn.ts)
        turn.usage = _parse_usage(body.get("usage"))
        for number, call in enumerate(_list_calls(body), 1):
            call_id = as_text(call.get("id")) or f"{place}, call {number}"
            turn.calls[call_id] = call
        return turn

    def _get_model_actor(self, name: str, model: str | None) -> str:
        provider = identify_provider(model)
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor("model", name, provider=provider, model=model)

    def _add_compaction(self, turn: _Turn) -> None:
        data: JsonObject = {"kind": "compaction", **pick_fields(turn.body, *_COMPACTION_FIELDS)}
        summary = get_first(turn.body, "summary_full", "summary_preview")
        if summary:
            data["summary"] = summary
        self._draft.add_annotation(
            data, actor=turn.actor, ts=turn.ts, span=turn.loop.span, usage=turn.take_usage()
        )

    def _add_block(self, block: Any, turn: _Turn) -> None:
        kind = block.get("type") if isinstance(block, dict) else None
        add = _BLOCK_HANDLERS.get(kind) if isinstance(kind, str) else None
        if add is None:
            self._draft.note_omission("unknown-block", turn.place, f"block {format_kind(kind)}")
        else:
            add(self, block, turn)

    def add_text(self, block: JsonObject, turn: _Turn) -> None:
        """Add a text; a person may have sent images and files with it."""
        role = turn.body.get("role")
        if role not in ("user", "system", "assistant"):
            role = "assistant"
        visibility: Visibility | None = None
        if role == "system" or (role == "user" and turn.loop.user):
            visibility = "internal"
        content = block.get("content")
        if isinstance(block.get("parts"), list):
            # The text only names an image or a file.
            content = block["parts"]
        message = Message("user", [])
        message.parts = parse_parts("" if content is None else content, message.unknown_kinds)
        for kind in message.unknown_kinds:
            self._draft.note_omission(
                "unknown-part", turn.place, f"part {format_kind(kind)}, kept as it is"
            )
        for _, part in split_message(message):
            content = part.content if isinstance(part, TextPart) else [part._asdict()]
            if content == "" and role == "assistant":
                continue
            turn.event = self._draft.add_message(
                cast(Role, role),
                content,
                turn.actor,
                ts=turn.ts,
                visibility=visibility,
                span=turn.loop.span,
                usage=turn.take_usage() if role == "assistant" else None,
            )

    def add_thinking(self, block: JsonObject, turn: _Turn) -> None:
        """Add reasoning."""
        text = as_text(block.get("content"))
        if text is None:
            self._draft.note_omission("empty-reasoning", turn.place, "reasoning without words")
        else:
            self._draft.add_reasoning(text, turn.actor, ts=turn.ts, span=turn.loop.span)

    def add_tool_use(self, block: JsonObject, turn: _Turn) -> None:
        """Add a call."""
        content = block.get("content")
        if not isinstance(content, dict):
            content = {}
        call_id = as_text(block.get("tool_call_id")) or as_text(content.get("id"))
        call_id = call_id or f"{turn.place}, block"
        names = pick_fields(block, "tool_name", "display_name")
        self._add_call(call_id, content | names | turn.calls.get(call_id, {}), turn)

    def add_tool_result(self, block: JsonObject, turn: _Turn) -> None:
        """Add a result; calls that were made together all come before the first result."""
        content = block.get("content")
        if not isinstance(content, dict) or "result" not in content:
            content = {"result": content}
        call_id = as_text(block.get("tool_call_id")) or as_text(content.get("tool_call_id"))
        if turn.body.get("role") == "user" and call_id not in turn.calls:
            # The client sent the result of a call; it is in the call, too.
            return
        self._add_remaining_calls(turn)
        known = turn.calls.get(call_id or "", {})
        self._add_result(call_id, pick_fields(block, "tool_name") | known | content, turn)

    def _add_remaining_calls(self, turn: _Turn) -> None:
        """Add the calls that have no block of their own."""
        if len(turn.added_calls) < len(turn.calls):
            for call_id, call in turn.calls.items():
                self._add_call(call_id, call, turn)

    def _add_call(self, call_id: str, call: JsonObject, turn: _Turn) -> None:
        if call_id in turn.added_calls:
            return
        turn.added_calls.add(call_id)
        count = self._draft.count
        self._draft.add_tool_call(
            call_id,
            as_text(call.get("tool_name")) or "tool",
            parse_arguments(call.get("arguments")),
            turn.actor,
            ts=turn.ts,
            span=turn.loop.span,
            usage=turn.usage,
            group=turn.place,
            extra=pick_fields(call, "display_name") or None,
        )
        if self._draft.count > count:
            turn.usage = None
            turn.event = None

    def _add_result(self, call_id: str | None, call: JsonObject, turn: _Turn) -> None:
        if call_id is not None and call_id in turn.answered_calls:
            return
        turn.answered_calls.add(call_id or "")
        self._add_subagent(call_id, turn)
        status = call.get("status")
        result = call.get("result")
        # A call that waits, or was cancelled, has no result: the draft marks it as missing.
        if result is None and status not in ("done", "error"):
            if status in ("cancelled", "awaiting_answer"):
                data = {"kind": "call_status", "status": status, "native_call_id": call_id}
                data |= pick_fields(call, "pending_question_ref")
                self._draft.add_annotation(data, actor=turn.actor, ts=turn.ts, span=turn.loop.span)
            return
        facts = pick_fields(call, "duration_ms", "pending_question_ref")
        if status == "error":
            facts["is_error"] = True
        # `_meta` is for the page that shows the result; the model did not see it.
        if isinstance(result, dict) and "_meta" in result:
            facts["_meta"] = result["_meta"]
            result = {name: value for name, value in result.items() if name != "_meta"}
        self._add_user_answer(call_id)
        self._draft.add_tool_result(
            call_id,
            unpack_output(result),
            ts=to_utc(call.get("finished_at")),
            span=turn.loop.span,
            tool=as_text(call.get("tool_name")),
            facts=facts or None,
        )

    def _add_user_answer(self, call_id: str | None) -> None:
        """Add the person's answer to a call before the result that it led to."""
        number = self._answers.get(call_id or "")
        if number is None or number in self._done or number in self._nested:
            return
        is_in_branch = self._branch_start is not None
        if (number in self._abandoned) == is_in_branch:
            self._add_turn(number, _Loop())

    def _add_subagent(self, call_id: str | None, turn: _Turn) -> None:
        """Add the turns of the subagent of a call, between the call and its result."""
        numbers = [
            number
            for number in self._subagent_turns.get(call_id or "", ())
            if number not in self._done
        ]
        if not numbers or turn.loop.depth >= _MAX_DEPTH:
            return
        first = self._turns[numbers[0]]
        name = as_text(first.get("loop_id")) or "subagent"
        ts = to_utc(first.get("started_at"))
        loop = self._start_loop(name, call_id, turn.loop, ts, turn.actor)
        for number in numbers:
            self._add_turn(number, loop)
        if loop.span is not None and loop.span != turn.loop.span:
            self._draft.end_span(loop.span, call=call_id)

    def add_answer(self, block: JsonObject, turn: _Turn) -> None:
        """Add what a person chose or wrote when the agent asked."""
        content = block.get("content")
        if not isinstance(content, dict):
            content = {"answers": content}
        blocks = [{"type": "ask_user_answer", **content}]
        turn.event = self._draft.add_message(
            "user", blocks, turn.actor, ts=turn.ts, span=turn.loop.span
        )

    def add_interface_block(self, block: JsonObject, turn: _Turn) -> None:
        """Add what the user interface shows next to the messages."""
        content = block.get("content")
        call_id = as_text(block.get("tool_call_id"))
        call = turn.calls.get(call_id) if call_id else None
        if call is not None and call.get("status") in ("done", "error"):
            self._add_remaining_calls(turn)
            self._add_result(call_id, call, turn)
        data: JsonObject = {"kind": block["type"]}
        if isinstance(content, dict):
            data |= {name: value for name, value in content.items() if name != "kind"}
        elif content is not None:
            data["text"] = content
        if block.get("tool_call_id") is not None:
            data["native_call_id"] = block["tool_call_id"]
        self._draft.add_annotation(data, actor=turn.actor, ts=turn.ts, span=turn.loop.span)

    def add_notice(self, block: JsonObject, turn: _Turn) -> None:
        """Add a notification of the system."""
        data = {"kind": "notice", "text": block.get("content")}
        self._draft.add_annotation(data, ts=turn.ts, span=turn.loop.span)

    def _add_attempts(self, turn: _Turn) -> None:
        """Add the model calls that failed before the answer, with what they had streamed."""
        for attempt in as_dicts(turn.body.get("attempts")):
            data: JsonObject = {"kind": "failed_attempt"}
            data |= pick_fields(attempt, "failure_reason", "code")
            texts = []
            for block in as_dicts(attempt.get("blocks")):
                content = block.get("content")
                if block.get("type") == "text" and isinstance(content, str):
                    texts.append(content)
                elif block.get("type") == "thinking":
                    self._draft.note_omission(
                        "failed-attempt", turn.place, "reasoning of a model call that failed"
                    )
                elif block.get("type") == "tool_use":
                    self._draft.note_omission(
                        "failed-attempt", turn.place, "a call of a model call that failed"
                    )
            if texts:
                data["text"] = "".join(texts)
            self._draft.add_annotation(
                data, actor=turn.actor, ts=to_utc(attempt.get("failed_at")), span=turn.loop.span
            )

    def _add_turn_facts(self, turn: _Turn) -> None:
        body = turn.body
        status = body.get("status")
        where: Any = {"actor": turn.actor, "ts": turn.ts, "span": turn.loop.span}
        if turn.usage and any(turn.usage.values()):
            self._draft.add_annotation({"kind": "usage"}, usage=turn.take_usage(), **where)
        facts = {name: body[name] for name in ("duration_ms", "context_window") if body.get(name)}
        if status in ("paused", "streaming"):
            facts["status"] = status
        finish_reason = as_text(body.get("finish_reason"))
        if finish_reason:
            facts["finish_reason"] = finish_reason
        if facts:
            data = {"kind": "message_facts", **facts}
            self._draft.add_annotation(data, parent=turn.event, **where)
        if body.get("memory_refs"):
            data = {"kind": "memory_refs", "refs": body["memory_refs"]}
            self._draft.add_annotation(data, **where)
        if status == "interrupted":
            self._draft.add_annotation({"kind": "interrupted"}, **where)
        elif status == "failed":
            data = {"kind": "error", **pick_fields(body, "failure_reason")}
            self._draft.add_annotation(data, **where)


_BLOCK_HANDLERS: dict[str, Callable[[TurnWriter, JsonObject, _Turn], None]] = {
    "text": TurnWriter.add_text,
    "thinking": TurnWriter.add_thinking,
    "tool_use": TurnWriter.add_tool_use,
    "tool_result": TurnWriter.add_tool_result,
    "ask_user_answer": TurnWriter.add_answer,
    "system_notification": TurnWriter.add_notice,
    "tool_ui": TurnWriter.add_interface_block,
    "tool_bridge": TurnWriter.add_interface_block,
    "mode_change": TurnWriter.add_interface_block,
    "planning_enter": TurnWriter.add_interface_block,
    "planning_exit": TurnWriter.add_interface_block,
    "plan_status": TurnWriter.add_interface_block,
}


def _list_answered_calls(turn: JsonObject) -> list[str]:
    """Return the calls that a turn of the person answers."""
    if turn.get("role") != "user":
        return []
    call_ids = []
    for block in as_dicts(turn.get("blocks")):
        content = block.get("content")
        if block.get("type") == "ask_user_answer" and isinstance(content, dict):
            call_id = as_text(content.get("tool_call_id"))
            if call_id:
                call_ids.append(call_id)
    return call_ids


def _list_calls(turn: JsonObject) -> list[JsonObject]:
    return as_dicts(turn.get("tool_calls"))


def _parse_usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return build_usage(**{name: value.get(name) for name in _USAGE_FIELDS})
