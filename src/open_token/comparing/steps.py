"""A conversation as steps: what somebody said, what a model called and what came of it, without
regard to ids."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from open_token.comparing.deeds import Deed, deed_of
from open_token.jsontools.timestamps import to_epoch_ms
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Conversation, Event, Participant, Record

HAPPENINGS = frozenset(
    "interrupted aborted api_error error compaction compaction_summary model_fallback".split()
)
"""Annotations that tell of something that happened in the run; all others only describe it."""
_COUNTS = frozenset("usage request_usage turn_usage cost".split())
_MOMENTS = frozenset("duration_seconds duration_ms".split())
_NO_DEED = Deed("", "", known=False)
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")
_LONGEST_CWD = 4096


class Step(msgspec.Struct):
    """One thing that happened; `number` counts from 1."""

    number: int
    kind: str
    """message, call, result (without its call), note or span."""
    role: str
    event: Event
    tool: str = ""
    arguments: Any = None
    deed: Deed = _NO_DEED
    batch: int = 0
    """Calls of one number were made side by side."""
    result: Event | None = None
    facts: dict[str, Any] = {}
    key: bytes = b""
    call_key: bytes = b""
    """Of the call alone; what came of it may differ still."""

    @property
    def failed(self) -> bool:
        """Whether what was called says so itself."""
        code = self.facts.get("exit_code")
        return self.facts.get("is_error") is True or (type(code) is int and code != 0)

    @property
    def has_result(self) -> bool:
        """Whether the record tells what came of it."""
        return self.result is not None and data_of(self.result).get("missing_result") is not True

    @property
    def is_setting(self) -> bool:
        """Whether it is what a runtime puts before or between the talk: prompts and reminders of
        its own."""
        role = self.role
        return self.kind == "message" and (
            role in ("system", "developer", "assistant_thought")
            or (role == "user" and self.event.get("visibility") == "internal")
        )


class Run(msgspec.Struct):
    """A conversation as it is compared."""

    steps: list[Step]
    conversation: Conversation
    models: list[str]
    actors: dict[str, str]
    cwd: str
    tokens: dict[str, int]
    ms: int | None
    """From the first known moment to the last, in milliseconds."""
    events: int

    def see_from(self, cwd: str) -> None:
        """Tell the deeds of its calls as seen from a folder."""
        self.cwd = cwd
        for step in self.steps:
            if step.kind == "call":
                step.deed = deed_of(step.tool, step.arguments, cwd)

    def names(self, folder: str) -> bool:
        """Whether a call names something in a folder."""
        return any(folder in text for step in self.steps for text in iter_strings(step.arguments))


class Recorder:
    """Takes the events of a conversation one by one and tells its steps."""

    def __init__(self, level: str) -> None:
        self._exact = level == "exact"
        self._steps: list[Step] = []
        self._calls: dict[str, Step] = {}
        self._results: dict[str, Step] = {}
        self._tokens: Counter[str] = Counter()
        self._count = 0
        self._record: Record | None = None
        self._batch = 0
        self._open = False
        self._cwd = ""
        self._first: str | None = None
        self._last: str | None = None

    def meet(self, record: Record) -> None:
        """The facts about the whole."""
        self._record = record

    def heard(self) -> Run:
        """All of a record that it met."""
        assert self._record is not None
        return self.run(self._record.conversation, self._record.participants)

    def take(self, event: Event) -> None:
        """One more event; what a stranger's document has in an event's place is passed over."""
        if not isinstance(event, dict):
            return  # type: ignore[unreachable]
        self._count += 1
        self._note_facts(event)
        kind = event.get("type")
        if kind == "tool_use":
            self._call(event)
        elif kind == "tool_result":
            self._result(event)
        elif kind == "message":
            self._add("message", event)
        elif kind == "annotation":
            self._annotation(event)
        else:
            self._open = False
            if self._exact:
                self._add("span", event)

    def _note_facts(self, event: Event) -> None:
        ts = event.get("ts")
        if isinstance(ts, str):
            self._first = self._first or ts
            self._last = ts
        usage = event.get("usage")
        if isinstance(usage, dict):
            for name in _TOKENS:
                count = usage.get(name)
                if type(count) is int:
                    self._tokens[name] += count

    def _add(self, kind: str, event: Event) -> Step:
        self._open = kind == "call" and self._open
        step = Step(len(self._steps) + 1, kind, str(event.get("role") or ""), event)
        self._steps.append(step)
        return step

    def _call(self, event: Event) -> None:
        if not self._open:
            self._batch += 1
            self._open = True
        data = data_of(event)
        step = self._add("call", event)
        step.tool, step.arguments = str(data.get("tool_name") or "tool"), data.get("arguments")
        step.batch = self._batch
        step.facts = {}
        self._calls[str(object_of(event.get("links")).get("call_id") or f"#{step.number}")] = step

    def _result(self, event: Event) -> None:
        self._open = False
        step = self._calls.get(str(object_of(event.get("links")).get("call_id")))
        if step is None or step.result is not None:
            step = self._add("result", event)
            step.facts = {}
        step.result = event
        self._results[str(event.get("id"))] = step

    def _annotation(self, event: Event) -> None:
        data = data_of(event)
        kind = str(data.get("kind") or "")
        if kind == "result_facts":
            step = self._results.get(str(object_of(event.get("links")).get("parent_id")))
            if step is not None:
                step.facts = {
                    **step.facts,
                    **{name: value for name, value in data.items() if name != "kind"},
                }
                return
        if not self._cwd and kind == "context" and isinstance(cwd := data.get("cwd"), str):
            self._cwd = cwd.rstrip("/") if len(cwd) <= _LONGEST_CWD else ""
        if (self._exact and kind not in _COUNTS) or kind in HAPPENINGS:
            self._add("note", event)

    def run(self, conversation: Conversation, participants: Iterable[Participant]) -> Run:
        """All of it."""
        cwd = "" if self._exact else self._cwd
        people = [person for person in participants if isinstance(person, dict)]
        models = [str(person["model"]) for person in people if person.get("model")]
        actors = {
            str(one.get("actor_id")): f"{one.get('kind')} {one.get('name')}" for one in people
        }
        begin, end = (to_epoch_ms(_in_ms(ts)) for ts in (self._first, self._last))
        ms = end - begin if begin is not None and end is not None and end >= begin else None
        models = list(dict.fromkeys(models))
        made = Run(
            self._steps, conversation, models, actors, cwd, dict(self._tokens), ms, self._count
        )
        made.see_from(cwd)
        return made


def run_of(document: Mapping[str, Any], level: str) -> Run:
    """The steps of a document."""
    recorder = Recorder(level)
    events, people = document.get("events"), document.get("participants")
    for event in events if isinstance(events, list) else []:
        recorder.take(event)
    conversation: Any = object_of(document.get("conversation"))
    return recorder.run(conversation, people if isinstance(people, list) else [])


def said(event: Event) -> Any:
    """What an event holds: its words, or its data."""
    content = object_of(event.get("content"))
    text = content.get("text")
    return text if isinstance(text, str) else content.get("data")


def lasting_facts(step: Step) -> dict[str, Any]:
    """What is known of a result and is no measure of time."""
    return {name: value for name, value in step.facts.items() if name not in _MOMENTS}


def object_of(value: Any) -> dict[str, Any]:
    """What a stranger's file may hold in an object's place is nothing."""
    return value if isinstance(value, dict) else {}


def data_of(event: Event) -> dict[str, Any]:
    """The data of an event, where it is an object."""
    return object_of(object_of(event.get("content")).get("data"))


def _in_ms(ts: str | None) -> str | None:
    """A timestamp without what is finer than a millisecond."""
    if ts and "." in ts:
        head, _, tail = ts.rstrip("Z").partition(".")
        return f"{head}.{tail[:3]}Z"
    return ts
