"""Tells messages of which sources repeat many: a history again before each answer, an answer again
after its call."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.messages import Body, Call, Part, Result, Said, Text, Thought
from open_token.formats.shared.model_message import Calls, said
from open_token.formats.shared.responses_content import name_of
from open_token.model.document import Event, Role, Usage, Visibility

_PROMPTS = ("system", "developer")
_NEAR = 256


@dataclass(slots=True)
class Stage:
    """Where and by whom messages are told: the model's actor, the span, the time of what the model
    makes."""

    actor: str
    place: str
    span: str | None = None
    ts: str | None = None
    scope: object = None
    """What is repeated within one scope is told once; another agent's history is another scope."""
    user: str | None = None
    """Who speaks as user, when it is not a person."""
    usage: Usage | None = None


def units(message: Said) -> list[tuple[str, Part]]:
    """What a message says, piece by piece, each with its role; what is no model's is one piece with
    all its blocks."""
    if message.role == "assistant":
        return [("assistant", part) for part in message.parts]
    words = [part for part in message.parts if isinstance(part, Text)]
    others: list[tuple[str, Part]] = [
        (message.role, part) for part in message.parts if not isinstance(part, Text)
    ]
    if not words and message.parts:
        return others
    return [*others, (message.role, _joined(words))]


def _joined(words: list[Text]) -> Text:
    if len(words) == 1:
        return words[0]
    blocks: list[Any] = []
    for part in words:
        blocks += (
            [{"type": "text", "text": part.content}]
            if isinstance(part.content, str)
            else part.content
        )
    return Text(blocks if blocks else "")


def gist(role: str, part: Part) -> bytes:
    """A short mark of what a piece says: the same when it is repeated, with other ids and other
    white space."""
    if isinstance(part, Text):
        told: list[Any] = [
            "text",
            role,
            said(part.content) if isinstance(part.content, str) else part.content,
        ]
    elif isinstance(part, Thought):
        told = ["thought", said(part.text) if part.text else part.text]
    elif isinstance(part, Call):
        told = ["call", part.id] if part.id else ["call", part.tool, part.arguments]
    else:
        told = ["result", part.id] if part.id else ["result", part.tool, part.output]
    try:
        raw = msgspec.json.encode(told, order="sorted")
    except (RecursionError, UnicodeEncodeError):
        raw = repr(told).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=16).digest()


class Talk:
    """Tells messages to a draft, and remembers what was told where the source may repeat it."""

    def __init__(self, draft: Draft, remember: bool = True) -> None:
        self.draft = draft
        self._remember = remember
        self.calls = Calls(draft)
        self._made: dict[str, list[tuple[str, Any]]] = {}
        """By tool, the calls that may still be open, each with its arguments."""
        self._told: dict[object, Counter[bytes]] = {}
        self._last: dict[object, bytes] = {}

    def hear(self, messages: Iterable[Said], stage: Stage) -> None:
        """A history: what of it was not told in this scope is told now."""
        pieces = [
            (message, role, part, gist(role, part))
            for message in messages
            for role, part in units(message)
        ]
        told = self._told.setdefault(stage.scope, Counter())
        last = self._last.get(stage.scope)
        # What a person says behind the latest piece is new, also when it was said before and the
        # history is cut.
        known = (
            next((n for n in range(len(pieces) - 1, -1, -1) if pieces[n][3] == last), len(pieces))
            + 1
        )
        met: Counter[bytes] = Counter()
        for number, (message, role, part, mark) in enumerate(pieces):
            met[mark] += 1
            is_latest = number >= known and role != "assistant" and isinstance(part, Text)
            if met[mark] > told[mark] or is_latest:
                self._tell(message, role, part, stage, mark)

    def say(self, message: Said, stage: Stage) -> Event | None:
        """A message that is new: all of it is told; gives its last event that can be spoken of."""
        event = None
        for role, part in units(message):
            event = (
                self._tell(message, role, part, stage, gist(role, part) if self._remember else None)
                or event
            )
        return event

    def _tell(
        self, message: Said, role: str, part: Part, stage: Stage, mark: bytes | None
    ) -> Event | None:
        if mark is not None:
            self._told.setdefault(stage.scope, Counter())[mark] += 1
            if not isinstance(part, Thought):
                self._last[stage.scope] = mark
        if message.odd:
            for kind in message.odd:
                self.draft.note_omission(
                    "unknown-part", stage.place, f"part {name_of(kind)}, kept as it is"
                )
            message.odd = []
        if isinstance(part, Text):
            return self._words(message, role, part, stage)
        if isinstance(part, Thought):
            return self._thought(part, stage, message.ts)
        if isinstance(part, Call):
            self.call(part, stage, message.ts)
            return None
        return self.result(part, stage, message.ts)

    def _words(self, message: Said, role: str, part: Text, stage: Stage) -> Event | None:
        ts = message.ts or (stage.ts if role == "assistant" else None)
        if role == "assistant":
            if part.content == "":
                return None
            return self.draft.add_message(
                "assistant", part.content, stage.actor, ts=ts, span=stage.span, usage=_spent(stage)
            )
        if role == "user":
            actor = stage.user or self.draft.get_actor("human", message.name or "user")
        elif role in _PROMPTS:
            actor = self.draft.get_actor("system", message.name or "system")
        else:
            self.draft.note_omission(
                "unknown-role", stage.place, f"role {name_of(role)}, told as of the system"
            )
            actor, role = self.draft.get_actor("system", message.name or "system"), "system"
        inner: Visibility | None = "internal" if role != "user" or stage.user else None
        told = cast(Role, role)
        return self.draft.add_message(
            told, part.content, actor, ts=ts, span=stage.span, visibility=inner
        )

    def _thought(self, part: Thought, stage: Stage, ts: str | None) -> Event | None:
        if part.text == "":
            self.draft.note_omission("empty-reasoning", stage.place, "reasoning without words")
            return None
        return self.draft.add_reasoning(
            part.text, stage.actor, ts=ts or stage.ts, span=stage.span, summary=part.summary
        )

    def call(self, part: Call, stage: Stage, ts: str | None = None) -> str:
        """Tell a call; gives the key by which its result is told."""
        before = self.draft.count
        key = self.draft.add_tool_call(
            part.id,
            part.tool,
            part.arguments,
            stage.actor,
            ts=ts or stage.ts,
            span=stage.span,
            usage=stage.usage,
            group=stage.place,
            extra=part.extra,
        )
        if self.draft.count > before:
            stage.usage = None
            self.calls.made(key, part.id, part.tool)
            if self._remember:
                self._made.setdefault(part.tool, []).append((key, part.arguments))
        return key

    def open_call(self, part: Call) -> tuple[str, Any] | None:
        """The call that a tool ran for, with the arguments that the model gave: by id, else by tool
        and arguments."""
        made = self._made.get(part.tool, [])
        made[:_NEAR] = [call for call in made[:_NEAR] if self.draft.is_call_open(call[0])]
        near = made[:_NEAR]
        if part.id is not None:
            if found := next((call for call in near if call[0] == part.id), None):
                return found
            if self.draft.is_call_open(part.id):
                return part.id, part.arguments
            near = [call for call in near if call[0].startswith("\0")]
        same = (call for call in near if call[1] == part.arguments)
        return next(same, near[0] if near else None)

    def result(self, part: Result, stage: Stage, ts: str | None = None) -> Event:
        """Tell a result."""
        key = self.calls.key(part.id, part.tool)
        return self.draft.add_tool_result(
            key, part.output, ts=ts, span=stage.span, tool=part.tool, facts=part.facts
        )

    def times(self, mark: bytes, scope: object = None) -> int:
        """How often a piece was told in a scope."""
        return self._told.setdefault(scope, Counter())[mark]

    def told(self, part: Part, stage: Stage, role: str = "tool") -> None:
        """A piece was told in another way: no history tells it again."""
        mark = gist(role, part)
        self._told.setdefault(stage.scope, Counter())[mark] += 1
        self._last[stage.scope] = mark

    def facts(self, event: Event | None, stage: Stage, facts: Body) -> None:
        """What is known of a message beside its words."""
        known = {name: value for name, value in facts.items() if value is not None}
        if known:
            self.draft.add_annotation(
                {"kind": "message_facts", **known},
                parent=event,
                actor=stage.actor,
                ts=stage.ts,
                span=stage.span,
            )

    def close(self, stage: Stage) -> None:
        """What was spent on nothing that can be seen is told alone."""
        if stage.usage:
            self.draft.add_annotation(
                {"kind": "usage"},
                actor=stage.actor,
                ts=stage.ts,
                span=stage.span,
                usage=_spent(stage),
            )


def _spent(stage: Stage) -> Usage | None:
    spent, stage.usage = stage.usage, None
    return spent
