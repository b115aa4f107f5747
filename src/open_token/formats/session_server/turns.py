"""Tells turns of a session server: blocks, calls, results, and what subagents did where they were
called."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.messages import Body, Said, Text, first, output_of, parts_of
from open_token.formats.shared.model_message import counts
from open_token.formats.shared.providers import provider_of
from open_token.formats.shared.repeated_history import units
from open_token.formats.shared.responses_content import arguments, kept, name_of, word
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Role, Usage, Visibility
from open_token.model.patches import Aside

_COMPACTION = (
    "compaction_id",
    "archived_count",
    "tokens_before",
    "tokens_after",
    "saved_ratio",
    "trigger",
)
_DEEPEST = 32


@dataclass(slots=True)
class _Loop:
    """The loop that turns belong to: the root, or a subagent with its span."""

    span: str | None = None
    user: str | None = None
    name: str = "assistant"
    depth: int = 0


@dataclass(slots=True)
class _Turn:
    """One turn on its way."""

    body: Body
    loop: _Loop
    place: str
    actor: str
    ts: str | None
    usage: Usage | None = None
    event: Event | None = None
    calls: dict[str, Body] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    """The calls that were told."""
    done: set[str] = field(default_factory=set)
    """The calls whose result was told."""

    def spent(self) -> Usage | None:
        spent, self.usage = self.usage, None
        return spent


class Teller:
    """Tells the turns of a session in order; those of a subagent stand inside the call that started
    it."""

    def __init__(self, draft: Draft, turns: list[Body], left: set[int] | None = None) -> None:
        self._draft = draft
        self._turns = turns
        self._left = left or set()
        self._inside: dict[str, list[int]] = {}
        self._done: set[int] = set()
        self._models: dict[str, str] = {}
        for number, turn in enumerate(turns):
            if model := word(turn.get("model")):
                self._models.setdefault(str(turn.get("loop_id")), model)
            if call := word(turn.get("parent_fork_tool_call_id")):
                self._inside.setdefault(call, []).append(number)
        known = {word(call.get("id")) for turn in turns for call in _calls(turn)}
        self._inside = {call: numbers for call, numbers in self._inside.items() if call in known}
        self._nested = {number for numbers in self._inside.values() for number in numbers}
        self._answers = {
            call: number for number, turn in enumerate(turns) for call in _answered_by(turn)
        }
        self._loops: dict[str, _Loop] = {}
        self._first_left: int | None = None

    def tell(self) -> None:
        """Tell everything."""
        root = _Loop()
        for number, turn in enumerate(self._turns):
            if number in self._nested or number in self._done:
                continue
            self._branch(number)
            self._tell(number, self._loop_of(turn, root))
        for number, turn in enumerate(self._turns):
            if number not in self._done:  # a circle of subagents
                self._tell(number, self._loop_of(turn, root))
        self._branch(None)

    def _branch(self, number: int | None) -> None:
        """Turns that were left make a branch with those beside them."""
        is_left = number is not None and number in self._left
        if is_left and self._first_left is None:
            self._first_left = self._draft.count
        elif not is_left and self._first_left is not None:
            actor = self._draft.get_actor("model", "assistant")
            self._draft.drop_branch(
                self._first_left, self._draft.count, {"kind": "abandoned_branch"}, actor
            )
            self._first_left = None

    def _loop_of(self, turn: Body, root: _Loop) -> _Loop:
        """A loop that no call in the session started has a span of its own."""
        name = word(turn.get("loop_id")) or "root"
        if name == "root":
            return root
        if name not in self._loops:
            call = word(turn.get("parent_fork_tool_call_id"))
            self._loops[name] = self._begin(name, call, root, to_utc(turn.get("started_at")), None)
        return self._loops[name]

    def _begin(
        self, name: str, call: str | None, outer: _Loop, ts: str | None, user: str | None
    ) -> _Loop:
        made = _Loop(
            outer.span, user or self._draft.get_actor("model", outer.name), name, outer.depth + 1
        )
        if self._draft.subagents == "none":
            return made
        data: Body = {"kind": "subagent", "name": name}
        data |= {"parent_span": outer.span} if outer.span else {}
        data |= {"reference": name} if self._draft.subagents == "reference" else {}
        actor = self._model(name, self._models.get(name))
        made.span = self._draft.start_span(data, actor, ts=ts, call=call)
        return made

    def _tell(self, number: int, loop: _Loop) -> None:
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
        turn = self._begun(body, loop, place)
        if body.get("kind") == "compaction":
            self._compaction(turn)
            return
        if body.get("kind") not in (None, "message"):
            self._draft.note_omission(
                "unknown-record", place, f"turn {name_of(body.get('kind'))}, told as a message"
            )
        blocks = body.get("blocks")
        for block in blocks if isinstance(blocks, list) else ():
            self._block(block, turn)
        self._uses(turn)
        for native, call in turn.calls.items():
            self._result(native, call, turn)
        self._finish(turn)

    def _begun(self, body: Body, loop: _Loop, place: str) -> _Turn:
        role, model = body.get("role"), word(body.get("model"))
        if role == "user":
            actor = loop.user or self._draft.get_actor("human", "user")
        elif role == "system":
            actor = self._draft.get_actor("system", "system")
        else:
            actor = self._model(loop.name, model)
        turn = _Turn(body, loop, place, actor, to_utc(body.get("started_at")))
        if turn.ts:
            self._draft.conversation.setdefault("started_at", turn.ts)
        turn.usage = _usage(body.get("usage"))
        turn.calls = {
            word(call.get("id")) or f"{place}, call {n}": call
            for n, call in enumerate(_calls(body), 1)
        }
        return turn

    def _model(self, name: str, model: str | None) -> str:
        provider = provider_of(model)
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor("model", name, provider=provider, model=model)

    def _compaction(self, turn: _Turn) -> None:
        data: Body = {"kind": "compaction", **kept(turn.body, *_COMPACTION)}
        if summary := first(turn.body, "summary_full", "summary_preview"):
            data["summary"] = summary
        self._draft.add_annotation(
            data, actor=turn.actor, ts=turn.ts, span=turn.loop.span, usage=turn.spent()
        )

    def _block(self, block: Any, turn: _Turn) -> None:
        kind = block.get("type") if isinstance(block, dict) else None
        tell = _BLOCKS.get(kind) if isinstance(kind, str) else None
        if tell is None:
            self._draft.note_omission("unknown-block", turn.place, f"block {name_of(kind)}")
        else:
            tell(self, block, turn)

    def text(self, block: Body, turn: _Turn) -> None:
        """Words; a person may have sent pictures and files with them."""
        role = turn.body.get("role")
        told = cast(Role, role if role in ("user", "system", "assistant") else "assistant")
        inner: Visibility | None = (
            "internal" if told == "system" or (told == "user" and turn.loop.user) else None
        )
        content = block.get("content")
        message = Said("user", [])
        message.parts = parts_of("" if content is None else content, message.odd)
        for kind in message.odd:
            self._draft.note_omission(
                "unknown-part", turn.place, f"part {name_of(kind)}, kept as it is"
            )
        for _, part in units(message):
            words = part.content if isinstance(part, Text) else [part._asdict()]
            if words == "" and told == "assistant":
                continue
            spent = turn.spent() if told == "assistant" else None
            turn.event = self._draft.add_message(
                told,
                words,
                turn.actor,
                ts=turn.ts,
                visibility=inner,
                span=turn.loop.span,
                usage=spent,
            )

    def thinking(self, block: Body, turn: _Turn) -> None:
        words = word(block.get("content"))
        if words is None:
            self._draft.note_omission("empty-reasoning", turn.place, "reasoning without words")
        else:
            self._draft.add_reasoning(words, turn.actor, ts=turn.ts, span=turn.loop.span)

    def tool_use(self, block: Body, turn: _Turn) -> None:
        content = block.get("content")
        held = content if isinstance(content, dict) else {}
        native = word(block.get("tool_call_id")) or word(held.get("id")) or f"{turn.place}, block"
        call = {**held, **kept(block, "tool_name", "display_name"), **turn.calls.get(native, {})}
        self._use(native, call, turn)

    def tool_result(self, block: Body, turn: _Turn) -> None:
        """Calls that were made together are all told before the first result."""
        content = block.get("content")
        held = content if isinstance(content, dict) and "result" in content else {"result": content}
        native = word(block.get("tool_call_id")) or word(held.get("tool_call_id"))
        self._uses(turn)
        known = turn.calls.get(native or "", {})
        self._result(native, {**kept(block, "tool_name"), **known, **held}, turn)

    def _uses(self, turn: _Turn) -> None:
        """The calls that have no block of their own."""
        if len(turn.told) < len(turn.calls):
            for native, call in turn.calls.items():
                self._use(native, call, turn)

    def _use(self, native: str, call: Body, turn: _Turn) -> None:
        if native in turn.told:
            return
        turn.told.add(native)
        before = self._draft.count
        self._draft.add_tool_call(
            native,
            word(call.get("tool_name")) or "tool",
            arguments(call.get("arguments")),
            turn.actor,
            ts=turn.ts,
            span=turn.loop.span,
            usage=turn.usage,
            group=turn.place,
            extra=kept(call, "display_name") or None,
        )
        if self._draft.count > before:
            turn.usage = None
            turn.event = None

    def _result(self, native: str | None, call: Body, turn: _Turn) -> None:
        if native is not None and native in turn.done:
            return
        turn.done.add(native or "")
        self._subagent(native, turn)
        status, result = call.get("status"), call.get("result")
        if result is None and status not in ("done", "error"):
            if status in ("cancelled", "awaiting_answer"):
                data = {"kind": "call_status", "status": status, "native_call_id": native}
                data |= kept(call, "pending_question_ref")
                self._draft.add_annotation(
                    data | kept(call, "pending_question_ref"),
                    actor=turn.actor,
                    ts=turn.ts,
                    span=turn.loop.span,
                )
            return
        facts = kept(call, "duration_ms", "pending_question_ref") | (
            {"is_error": True} if status == "error" else {}
        )
        if isinstance(result, dict) and "_meta" in result:
            facts["_meta"] = result["_meta"]
            result = {name: value for name, value in result.items() if name != "_meta"}
        tool = word(call.get("tool_name"))
        self._answer_to(native)
        ts = to_utc(call.get("finished_at"))
        self._draft.add_tool_result(
            native, output_of(result), ts=ts, span=turn.loop.span, tool=tool, facts=facts or None
        )

    def _answer_to(self, native: str | None) -> None:
        """What the person answered to a call stands before the result that came of it."""
        number = self._answers.get(native or "")
        is_beside = number is not None and (number in self._left) == (self._first_left is not None)
        if (
            number is not None
            and is_beside
            and number not in self._done
            and number not in self._nested
        ):
            self._tell(number, _Loop())

    def _subagent(self, native: str | None, turn: _Turn) -> None:
        """What the call's subagent did, between the call and its result."""
        inside = [
            number for number in self._inside.get(native or "", ()) if number not in self._done
        ]
        if not inside or turn.loop.depth >= _DEEPEST:
            return
        begin = self._turns[inside[0]]
        name = word(begin.get("loop_id")) or "subagent"
        loop = self._begin(name, native, turn.loop, to_utc(begin.get("started_at")), turn.actor)
        for number in inside:
            self._tell(number, loop)
        if loop.span is not None and loop.span != turn.loop.span:
            self._draft.end_span(loop.span, call=native)

    def answer(self, block: Body, turn: _Turn) -> None:
        """What a person chose or wrote when the agent asked."""
        content = block.get("content")
        held = content if isinstance(content, dict) else {"answers": content}
        blocks = [{"type": "ask_user_answer", **held}]
        turn.event = self._draft.add_message(
            "user", blocks, turn.actor, ts=turn.ts, span=turn.loop.span
        )

    def beside(self, block: Body, turn: _Turn) -> None:
        """What the person is shown beside the talk."""
        content, native = block.get("content"), word(block.get("tool_call_id"))
        if (
            native
            and native in turn.calls
            and turn.calls[native].get("status") in ("done", "error")
        ):
            self._uses(turn)
            self._result(native, turn.calls[native], turn)
        data: Body = {"kind": block["type"]}
        if isinstance(content, dict):
            data |= {name: value for name, value in content.items() if name != "kind"}
        elif content is not None:
            data["text"] = content
        data |= kept({"native_call_id": block.get("tool_call_id")}, "native_call_id")
        self._draft.add_annotation(data, actor=turn.actor, ts=turn.ts, span=turn.loop.span)

    def notice(self, block: Body, turn: _Turn) -> None:
        data = {"kind": "notice", "text": block.get("content")}
        self._draft.add_annotation(data, ts=turn.ts, span=turn.loop.span)

    def _finish(self, turn: _Turn) -> None:
        body, where = turn.body, {"actor": turn.actor, "ts": turn.ts, "span": turn.loop.span}
        if turn.usage and any(turn.usage.values()):
            self._draft.add_annotation({"kind": "usage"}, usage=turn.spent(), **cast(Any, where))
        facts = {name: body[name] for name in ("duration_ms", "context_window") if body.get(name)}
        status = body.get("status")
        if status in ("paused", "streaming"):
            facts["status"] = status
        if facts:
            self._draft.add_annotation(
                {"kind": "message_facts", **facts}, parent=turn.event, **cast(Any, where)
            )
        if body.get("memory_refs"):
            self._draft.add_annotation(
                {"kind": "memory_refs", "refs": body["memory_refs"]}, **cast(Any, where)
            )
        if status == "interrupted":
            self._draft.add_annotation({"kind": "interrupted"}, **cast(Any, where))
        elif status == "failed":
            self._draft.add_annotation(
                {"kind": "error", **kept(body, "failure_reason")}, **cast(Any, where)
            )


_BLOCKS: dict[str, Callable[[Teller, Body, _Turn], None]] = {
    "text": Teller.text,
    "thinking": Teller.thinking,
    "tool_use": Teller.tool_use,
    "tool_result": Teller.tool_result,
    "ask_user_answer": Teller.answer,
    "system_notification": Teller.notice,
    "tool_ui": Teller.beside,
    "tool_bridge": Teller.beside,
    "mode_change": Teller.beside,
    "planning_enter": Teller.beside,
    "planning_exit": Teller.beside,
    "plan_status": Teller.beside,
}


def _answered_by(turn: Body) -> list[str]:
    """The calls that a turn of the person's answers."""
    blocks = turn.get("blocks")
    if turn.get("role") != "user" or not isinstance(blocks, list):
        return []
    contents = [block.get("content") for block in blocks if _is_answer(block)]
    return [
        name
        for held in contents
        if isinstance(held, dict) and (name := word(held.get("tool_call_id")))
    ]


def _is_answer(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "ask_user_answer"


def _calls(turn: Body) -> list[Body]:
    calls = turn.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    names = (
        "input_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
    )
    return counts(**{name: value.get(name) for name in names})
