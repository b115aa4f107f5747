"""Adding messages of a provider API to a draft, and finding the call that a result answers."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import MISSING_RESULT, Draft
from open_token.formats.shared.fields import JsonObject, drop_nulls
from open_token.model.document import Event, Role, Usage

_PROMPT_ROLES = ("system", "developer")
# Typographic signs and what clients write for them: quotes, dashes and the ellipsis.
_PLAIN_SIGNS = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "--",
        "\u2026": "...",
    }
)


def normalize_text(text: str) -> str:
    """Return a text as it is compared.

    Clients trim and re-wrap what they send back, and some replace typographic signs.
    """
    return " ".join(text.translate(_PLAIN_SIGNS).split())


def join_comparison_keys(role: str, parts: list[tuple[str, Any]]) -> list[Any]:
    """Return the comparison keys of a message from its parts (kind, value).

    Consecutive texts are one key, because clients join and split them.
    """
    if len(parts) == 1 and parts[0][0] == "text":
        text = normalize_text(parts[0][1])
        return [["text", role, text]] if text else [["empty", role]]
    keys: list[Any] = []
    texts: list[str] = []
    for kind, value in (*parts, ("end", None)):
        if kind == "text":
            texts.append(value)
            continue
        text = normalize_text("".join(texts))
        if text:
            keys.append(["text", role, text])
        texts = []
        if kind != "end":
            keys.append([kind, value])
    return keys or [["empty", role]]


def count_leading_prompts(messages: list[Any]) -> int:
    """Return how many messages at the beginning are system prompts."""
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _PROMPT_ROLES:
            return number
    return len(messages)


class CallMatcher:
    """Finds the call of a result by tool and order if ids are missing or invented by the client."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._without_id: dict[str | None, deque[str]] = {}
        """The keys of calls without an id, in order: by tool, and all of them under None."""

    def add_call(self, key: str, native_id: str | None, tool: str) -> None:
        """Remember a call that was added under this key."""
        if not native_id:
            self._without_id.setdefault(tool, deque()).append(key)
            self._without_id.setdefault(None, deque()).append(key)

    def find_key(self, native_id: str | None, tool: str | None, latest: bool = False) -> str | None:
        """Return the key of the call that a result answers.

        `latest` is for formats in which each result directly follows its call.
        """
        if native_id and self._draft.is_call_open(native_id):
            return native_id
        keys = self._without_id.get(tool, deque())
        end = -1 if latest else 0
        while keys and not self._draft.is_call_open(keys[end]):
            del keys[end]
        return keys[end] if keys else native_id


@dataclass
class MessageWriter:
    """Adds the events of one message of the model.

    Its usage goes on the first event that is not reasoning.
    """

    draft: Draft
    actor: str
    calls: CallMatcher
    place: str
    ts: str | None = None
    usage: Usage | None = None
    last: Event | None = field(default=None, init=False)
    call_keys: list[str] = field(default_factory=list, init=False)
    """The keys of the calls that were added."""

    def add_message(self, content: str | list[Any], role: Role = "assistant") -> None:
        """Add a message."""
        self.last = self.draft.add_message(
            role, content, self.actor, ts=self.ts, usage=self._take_usage()
        )

    def add_reasoning(self, text: str | None, *, summary: bool = False) -> None:
        """Add reasoning; None stands for encrypted text."""
        self.last = self.draft.add_reasoning(text, self.actor, ts=self.ts, summary=summary)

    def add_tool_call(
        self, native_id: str | None, tool: str, arguments: Any, extra: JsonObject | None = None
    ) -> None:
        """Add a tool call."""
        count = self.draft.count
        key = self.draft.add_tool_call(
            native_id,
            tool,
            arguments,
            self.actor,
            ts=self.ts,
            usage=self.usage,
            group=self.place,
            extra=extra,
        )
        if self.draft.count > count:
            self.usage = None
            self.calls.add_call(key, native_id, tool)
            self.call_keys.append(key)
        self.last = None

    def add_tool_result(
        self,
        native_id: str | None,
        output: Any,
        tool: str | None = None,
        facts: JsonObject | None = None,
        latest: bool = False,
    ) -> None:
        """Add the result of a tool call; see CallMatcher.find_key for `latest`."""
        key = self.calls.find_key(native_id, tool, latest)
        self.last = self.draft.add_tool_result(key, output, ts=self.ts, tool=tool, facts=facts)

    def add_annotation(self, kind: str, **data: Any) -> None:
        """Add an annotation to the last event; fields that are None are dropped."""
        annotation = {"kind": kind, **drop_nulls(data)}
        self.draft.add_annotation(annotation, parent=self.last, ts=self.ts)

    def close(self) -> None:
        """Add the usage as an annotation if no event has taken it."""
        if self.usage:
            self.draft.add_annotation(
                {"kind": "usage"}, actor=self.actor, ts=self.ts, usage=self._take_usage()
            )

    def _take_usage(self) -> Usage | None:
        usage = self.usage
        self.usage = None
        return usage


def add_alternatives(draft: Draft, writers: Iterator[MessageWriter]) -> None:
    """Turn alternative answers into abandoned branches.

    The iterator adds the events of one answer at each step and yields the writer that it used.
    """
    first = draft.count
    for number, writer in enumerate(writers, 2):
        _close_calls(writer)
        data = {"kind": "abandoned_branch", "branch": "alternative", "choice": number}
        draft.drop_branch(first, draft.count, data, writer.actor)
        first = draft.count


def _close_calls(writer: MessageWriter) -> None:
    """Close the calls of an answer that was not taken: they never get a result."""
    for key in writer.call_keys:
        if writer.draft.is_call_open(key):
            writer.draft.add_tool_result(key, dict(MISSING_RESULT))
