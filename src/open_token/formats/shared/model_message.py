"""How a wire dialect speaks to a draft: one message of the model, results without ids, answers
beside the first."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from open_token.builder.draft import MISSING, Draft
from open_token.model.document import Event, Role, Usage

Body = dict[str, Any]


def said(text: str) -> str:
    """A text as it is compared: clients trim and re-wrap what they send back."""
    return " ".join(text.split())


def runs(role: str, parts: list[tuple[str, Any]]) -> list[Any]:
    """The gists of a message from its parts (kind, value): texts that follow each other count as
    one."""
    if len(parts) == 1 and parts[0][0] == "text":
        text = said(parts[0][1])
        return [["text", role, text]] if text else [["empty", role]]
    made: list[Any] = []
    texts: list[str] = []
    for kind, value in (*parts, ("end", None)):
        if kind == "text":
            texts.append(value)
            continue
        if text := said("".join(texts)):
            made.append(["text", role, text])
        texts = []
        if kind != "end":
            made.append([kind, value])
    return made or [["empty", role]]


def prompts(messages: list[Any]) -> int:
    """How many messages at the beginning are prompts of the application."""
    roles = ("system", "developer")
    others = (
        n for n, m in enumerate(messages) if not isinstance(m, dict) or m.get("role") not in roles
    )
    return next(others, len(messages))


class Calls:
    """Finds the call of a result by name and order when ids are missing, empty, or invented by the
    client."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._nameless: dict[str | None, deque[str]] = {}
        """By tool, and all of them under None: the calls without an id, in order."""

    def made(self, key: str, native_id: str | None, tool: str) -> None:
        """A call was told under this key."""
        if not native_id:
            for name in (tool, None):
                self._nameless.setdefault(name, deque()).append(key)

    def key(self, native_id: str | None, tool: str | None, latest: bool = False) -> str | None:
        """The key of the call that a result answers; `latest` when results stand right behind their
        calls."""
        if native_id and self._draft.is_call_open(native_id):
            return native_id
        same, end = self._nameless.get(tool, deque()), -1 if latest else 0
        while same and not self._draft.is_call_open(same[end]):
            del same[end]
        return same[end] if same else native_id


@dataclass
class Voice:
    """Tells the events of one message of the model; its usage rides on the first event that is no
    thought."""

    draft: Draft
    actor: str
    calls: Calls
    place: str
    ts: str | None = None
    usage: Usage | None = None
    last: Event | None = field(default=None, init=False)
    made: list[str] = field(default_factory=list, init=False)
    """The keys of the calls that were made."""

    def say(self, content: str | list[Any], role: Role = "assistant") -> None:
        self.last = self.draft.add_message(
            role, content, self.actor, ts=self.ts, usage=self._spent()
        )

    def think(self, text: str | None, *, summary: bool = False) -> None:
        self.last = self.draft.add_reasoning(text, self.actor, ts=self.ts, summary=summary)

    def call(
        self, native_id: str | None, tool: str, arguments: Any, extra: Body | None = None
    ) -> None:
        before = self.draft.count
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
        if self.draft.count > before:
            self.usage = None
            self.calls.made(key, native_id, tool)
            self.made.append(key)
        self.last = None

    def answer(
        self,
        native_id: str | None,
        output: Any,
        tool: str | None = None,
        facts: Body | None = None,
        latest: bool = False,
    ) -> None:
        key = self.calls.key(native_id, tool, latest)
        self.last = self.draft.add_tool_result(key, output, ts=self.ts, tool=tool, facts=facts)

    def note(self, kind: str, **data: Any) -> None:
        """A fact beside the last event."""
        known = {name: value for name, value in data.items() if value is not None}
        self.draft.add_annotation({"kind": kind, **known}, parent=self.last, ts=self.ts)

    def close(self) -> None:
        """What was spent on nothing that can be seen is told alone."""
        if self.usage:
            self.draft.add_annotation(
                {"kind": "usage"}, actor=self.actor, ts=self.ts, usage=self._spent()
            )

    def _spent(self) -> Usage | None:
        spent, self.usage = self.usage, None
        return spent


def _close(voice: Voice) -> None:
    """The calls of an answer that was not taken never get a result."""
    for key in voice.made:
        if voice.draft.is_call_open(key):
            voice.draft.add_tool_result(key, dict(MISSING))


def alternatives(draft: Draft, others: Iterator[Voice]) -> None:
    """Answers beside the first, each told by a voice of its own: branches that were not taken."""
    first = draft.count
    for number, voice in enumerate(others, 2):
        _close(voice)
        data = {"kind": "abandoned_branch", "branch": "alternative", "choice": number}
        draft.drop_branch(first, draft.count, data, voice.actor)
        first = draft.count


def counts(**given: Any) -> Usage | None:
    """Usage of the counts that are known."""
    made = {name: count for name, count in given.items() if type(count) is int and count >= 0}
    return cast(Usage, made) if made else None
