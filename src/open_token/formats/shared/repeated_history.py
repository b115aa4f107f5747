"""Adding messages of sources that repeat them: a history before each answer, answers after calls."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, drop_nulls
from open_token.formats.shared.message_writer import CallMatcher, normalize_text
from open_token.formats.shared.messages import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from open_token.formats.shared.notes import format_kind
from open_token.model.document import Event, Role, Usage, Visibility

_PROMPT_ROLES = ("system", "developer")
_MAX_OPEN_CALLS = 256
"""How many open calls of a tool are compared with one that runs, to keep the time linear."""


@dataclass(slots=True)
class MessageContext:
    """Where messages are added: the actor of the model, the span, and the time of its output."""

    actor: str
    place: str
    span: str | None = None
    ts: str | None = None
    scope: object = None
    """What is repeated within one scope is added once; each agent has a scope of its own."""
    user: str | None = None
    """The actor of user messages, if it is not a person."""
    usage: Usage | None = None


def split_message(message: Message) -> list[tuple[str, Part]]:
    """Return the parts of a message, each with its role.

    Text of anyone but the model is joined into a single part.
    """
    if message.role == "assistant":
        return [("assistant", part) for part in message.parts]
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    parts: list[tuple[str, Part]] = [
        (message.role, part) for part in message.parts if not isinstance(part, TextPart)
    ]
    if texts or not message.parts:
        parts.append((message.role, _join_texts(texts)))
    return parts


def _join_texts(parts: list[TextPart]) -> TextPart:
    if len(parts) == 1:
        return parts[0]
    blocks: list[Any] = []
    for part in parts:
        if isinstance(part.content, str):
            blocks.append({"type": "text", "text": part.content})
        else:
            blocks += part.content
    return TextPart(blocks or "")


def hash_part(role: str, part: Part) -> bytes:
    """Return a digest that is the same when a part is repeated with other ids or whitespace."""
    key: list[Any]
    if isinstance(part, TextPart):
        content = part.content
        if isinstance(content, str):
            content = normalize_text(content)
        key = ["text", role, content]
    elif isinstance(part, ReasoningPart):
        key = ["thought", normalize_text(part.text) if part.text else part.text]
    elif isinstance(part, ToolCallPart):
        key = ["call", part.id] if part.id else ["call", part.tool, part.arguments]
    else:
        key = ["result", part.id] if part.id else ["result", part.tool, part.output]
    try:
        encoded = msgspec.json.encode(key, order="sorted")
    except (RecursionError, UnicodeEncodeError):
        encoded = repr(key).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()


class HistoryWriter:
    """Adds messages to a draft, and remembers which ones if the source may repeat them."""

    def __init__(self, draft: Draft, remember: bool = True) -> None:
        self.draft = draft
        self._remember = remember
        self.calls = CallMatcher(draft)
        self._open_calls: dict[str, list[tuple[str, Any]]] = {}
        """By tool, the calls that may still be open, each with its arguments."""
        self._seen: dict[object, Counter[bytes]] = {}
        self._last: dict[object, bytes] = {}

    def add_history(self, messages: Iterable[Message], context: MessageContext) -> None:
        """Add what of a history is new in this scope."""
        parts = []
        for message in messages:
            for role, part in split_message(message):
                parts.append((message, role, part, hash_part(role, part)))
        seen = self._seen.setdefault(context.scope, Counter())
        # User input after the latest known part is new, even if the same text came before and
        # the history is cut.
        first_new = len(parts) + 1
        last = self._last.get(context.scope)
        for number in range(len(parts) - 1, -1, -1):
            if parts[number][3] == last:
                first_new = number + 1
                break
        counts: Counter[bytes] = Counter()
        for number, (message, role, part, digest) in enumerate(parts):
            counts[digest] += 1
            is_input = role != "assistant" and isinstance(part, TextPart)
            is_new_input = is_input and number >= first_new
            if counts[digest] > seen[digest] or is_new_input:
                self._add_part(message, role, part, context, digest)

    def add_message(self, message: Message, context: MessageContext) -> Event | None:
        """Add a new message; return its last event that annotations can refer to."""
        last = None
        for role, part in split_message(message):
            digest = hash_part(role, part) if self._remember else None
            event = self._add_part(message, role, part, context, digest)
            last = event or last
        return last

    def _add_part(
        self,
        message: Message,
        role: str,
        part: Part,
        context: MessageContext,
        digest: bytes | None,
    ) -> Event | None:
        if digest is not None:
            self._seen.setdefault(context.scope, Counter())[digest] += 1
            if not isinstance(part, ReasoningPart):
                self._last[context.scope] = digest
        for kind in message.unknown_kinds:
            self.draft.note_omission(
                "unknown-part", context.place, f"part {format_kind(kind)}, kept as it is"
            )
        message.unknown_kinds = []
        if isinstance(part, TextPart):
            return self._add_text(message, role, part, context)
        if isinstance(part, ReasoningPart):
            return self._add_reasoning(part, context, message.ts)
        if isinstance(part, ToolCallPart):
            self.add_tool_call(part, context, message.ts)
            return None
        return self.add_tool_result(part, context, message.ts)

    def _add_text(
        self, message: Message, role: str, part: TextPart, context: MessageContext
    ) -> Event | None:
        if role == "assistant":
            if part.content == "":
                return None
            return self.draft.add_message(
                "assistant",
                part.content,
                context.actor,
                ts=message.ts or context.ts,
                span=context.span,
                usage=_take_usage(context),
            )
        visibility: Visibility | None = "internal"
        if role == "user":
            actor = context.user or self.draft.get_actor("human", message.name or "user")
            if not context.user:
                visibility = None
        else:
            if role not in _PROMPT_ROLES:
                self.draft.note_omission(
                    "unknown-role",
                    context.place,
                    f"role {format_kind(role)}, exported as system",
                )
                role = "system"
            actor = self.draft.get_actor("system", message.name or "system")
        return self.draft.add_message(
            cast(Role, role),
            part.content,
            actor,
            ts=message.ts,
            span=context.span,
            visibility=visibility,
        )

    def _add_reasoning(
        self, part: ReasoningPart, context: MessageContext, ts: str | None
    ) -> Event | None:
        if part.text == "":
            self.draft.note_omission("empty-reasoning", context.place, "reasoning without words")
            return None
        return self.draft.add_reasoning(
            part.text, context.actor, ts=ts or context.ts, span=context.span, summary=part.summary
        )

    def add_tool_call(
        self, part: ToolCallPart, context: MessageContext, ts: str | None = None
    ) -> str:
        """Add a call; return the key for its result."""
        count = self.draft.count
        key = self.draft.add_tool_call(
            part.id,
            part.tool,
            part.arguments,
            context.actor,
            ts=ts or context.ts,
            span=context.span,
            usage=context.usage,
            group=context.place,
            extra=part.extra,
        )
        if self.draft.count > count:
            context.usage = None
            self.calls.add_call(key, part.id, part.tool)
            if self._remember:
                self._open_calls.setdefault(part.tool, []).append((key, part.arguments))
        return key

    def find_open_call(self, part: ToolCallPart) -> tuple[str, Any] | None:
        """Return the key and arguments of the call that a tool runs for.

        It is found by id, else by tool and arguments, else it is the oldest of the tool.
        """
        calls = self._open_calls.get(part.tool, [])
        calls[:_MAX_OPEN_CALLS] = [
            call for call in calls[:_MAX_OPEN_CALLS] if self.draft.is_call_open(call[0])
        ]
        candidates = calls[:_MAX_OPEN_CALLS]
        if part.id is not None:
            for call in candidates:
                if call[0] == part.id:
                    return call
            if self.draft.is_call_open(part.id):
                return part.id, part.arguments
            # Only a call without an id of its own may have got this one.
            candidates = [call for call in candidates if call[0].startswith("\0")]
        for call in candidates:
            if call[1] == part.arguments:
                return call
        return candidates[0] if candidates else None

    def add_tool_result(
        self, part: ToolResultPart, context: MessageContext, ts: str | None = None
    ) -> Event:
        """Add a result."""
        key = self.calls.find_key(part.id, part.tool)
        return self.draft.add_tool_result(
            key, part.output, ts=ts, span=context.span, tool=part.tool, facts=part.facts
        )

    def count_seen(self, digest: bytes, scope: object = None) -> int:
        """Return how often a part was added in a scope."""
        return self._seen.setdefault(scope, Counter())[digest]

    def mark_seen(self, part: Part, context: MessageContext, role: str = "tool") -> None:
        """Remember a part that was added in another way: no history adds it again."""
        digest = hash_part(role, part)
        self._seen.setdefault(context.scope, Counter())[digest] += 1
        self._last[context.scope] = digest

    def add_facts(self, event: Event | None, context: MessageContext, facts: JsonObject) -> None:
        """Add what is known about a message as an annotation."""
        known = drop_nulls(facts)
        if known:
            self.draft.add_annotation(
                {"kind": "message_facts", **known},
                parent=event,
                actor=context.actor,
                ts=context.ts,
                span=context.span,
            )

    def close(self, context: MessageContext) -> None:
        """Add the usage as an annotation if no event has taken it."""
        if context.usage:
            self.draft.add_annotation(
                {"kind": "usage"},
                actor=context.actor,
                ts=context.ts,
                span=context.span,
                usage=_take_usage(context),
            )


def _take_usage(context: MessageContext) -> Usage | None:
    usage = context.usage
    context.usage = None
    return usage
