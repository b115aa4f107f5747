"""A conversation as steps for comparison: messages, calls with their results, notable events."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from open_token.comparison.actions import Action, parse_action
from open_token.jsontools.objects import as_object, get_data, omit_keys
from open_token.jsontools.timestamps import to_epoch_ms
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Conversation, Event, Participant, Record

SESSION_EVENTS = frozenset(
    (
        "interrupted",
        "aborted",
        "api_error",
        "error",
        "compaction",
        "compaction_summary",
        "model_fallback",
    )
)
"""Annotations about something that happened in the session; all others only describe it."""
_USAGE_ANNOTATIONS = frozenset(("usage", "request_usage", "turn_usage", "cost"))
_DURATIONS = frozenset(("duration_seconds", "duration_ms"))
_NO_ACTION = Action("", "", known=False)
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")
_MAX_CWD = 4096


class Step(msgspec.Struct):
    """One step; `number` counts from 1."""

    number: int
    kind: str
    """message, call, result (without its call), note or span."""
    role: str
    event: Event
    tool: str = ""
    arguments: Any = None
    action: Action = _NO_ACTION
    batch: int = 0
    """Calls with the same number were made in parallel."""
    result: Event | None = None
    facts: dict[str, Any] = {}
    key: bytes = b""
    call_key: bytes = b""
    """The key of the call without its result."""

    @property
    def failed(self) -> bool:
        """Whether the result says that the call failed."""
        exit_code = self.facts.get("exit_code")
        has_error_code = type(exit_code) is int and exit_code != 0
        return self.facts.get("is_error") is True or has_error_code

    @property
    def has_result(self) -> bool:
        """Whether the result is recorded."""
        return self.result is not None and get_data(self.result).get("missing_result") is not True

    @property
    def is_runtime_prompt(self) -> bool:
        """Whether it is a message of the runtime or reasoning, not of the conversation itself."""
        if self.kind != "message":
            return False
        if self.role in ("system", "developer", "assistant_thought"):
            return True
        return self.role == "user" and self.event.get("visibility") == "internal"


class Transcript(msgspec.Struct):
    """The steps of a session with its totals."""

    steps: list[Step]
    conversation: Conversation
    models: list[str]
    actors: dict[str, str]
    cwd: str
    tokens: dict[str, int]
    ms: int | None
    """Milliseconds from the first to the last known time."""
    events: int
    cost: float | None = None
    """In dollars, as the source reports it or by the price list; None if it is not known."""

    def set_cwd(self, cwd: str) -> None:
        """Parse the actions of all calls relative to a working directory."""
        self.cwd = cwd
        for step in self.steps:
            if step.kind == "call":
                step.action = parse_action(step.tool, step.arguments, cwd)

    def mentions(self, directory: str) -> bool:
        """Return whether an argument of a call mentions a directory."""
        for step in self.steps:
            for text in iter_strings(step.arguments):
                if directory in text:
                    return True
        return False


class TranscriptBuilder:
    """Builds the steps of a conversation event by event."""

    def __init__(self, level: str, *, with_cost: bool = False) -> None:
        self._exact = level == "exact"
        self._with_cost = with_cost
        self._estimate_cost: Callable[[str, Any], float | None] | None = None
        self._reported_cost = 0.0
        self._estimated_cost = 0.0
        self._steps: list[Step] = []
        self._calls: dict[str, Step] = {}
        self._steps_by_result: dict[str, Step] = {}
        self._tokens: Counter[str] = Counter()
        self._count = 0
        self._record: Record | None = None
        self._batch = 0
        self._is_batch_open = False
        self._cwd = ""
        self._first_ts: str | None = None
        self._last_ts: str | None = None

    def meet(self, record: Record) -> None:
        """Set the record whose events follow."""
        self._record = record
        if self._with_cost:
            self._estimate_cost = record.bind_prices()

    def build_from_record(self) -> Transcript:
        """Return the transcript of the record that was set."""
        assert self._record is not None
        return self.build(self._record.conversation, self._record.participants)

    def take(self, event: Event) -> None:
        """Add an event; a value that is not an object is skipped."""
        if not isinstance(event, dict):
            return  # type: ignore[unreachable]
        self._count += 1
        self._add_totals(event)
        kind = event.get("type")
        if kind == "tool_use":
            self._add_call(event)
        elif kind == "tool_result":
            self._add_result(event)
        elif kind == "message":
            self._add_step("message", event)
        elif kind == "annotation":
            self._add_annotation(event)
        else:
            self._is_batch_open = False
            if self._exact:
                self._add_step("span", event)

    def _add_totals(self, event: Event) -> None:
        ts = event.get("ts")
        if isinstance(ts, str):
            self._first_ts = self._first_ts or ts
            self._last_ts = ts
        usage = event.get("usage")
        if isinstance(usage, dict):
            for name in _TOKENS:
                count = usage.get(name)
                if type(count) is int:
                    self._tokens[name] += count
            if self._estimate_cost is not None:
                cost = self._estimate_cost(str(event.get("actor_id", "")), usage)
                self._estimated_cost += cost or 0.0

    def _add_step(self, kind: str, event: Event) -> Step:
        if kind != "call":
            self._is_batch_open = False
        step = Step(len(self._steps) + 1, kind, str(event.get("role") or ""), event)
        self._steps.append(step)
        return step

    def _add_call(self, event: Event) -> None:
        if not self._is_batch_open:
            self._batch += 1
            self._is_batch_open = True
        data = get_data(event)
        step = self._add_step("call", event)
        step.tool = str(data.get("tool_name") or "tool")
        step.arguments = data.get("arguments")
        step.batch = self._batch
        step.facts = {}
        call_id = as_object(event.get("links")).get("call_id") or f"#{step.number}"
        self._calls[str(call_id)] = step

    def _add_result(self, event: Event) -> None:
        self._is_batch_open = False
        step = self._calls.get(str(as_object(event.get("links")).get("call_id")))
        if step is None or step.result is not None:
            step = self._add_step("result", event)
            step.facts = {}
        step.result = event
        self._steps_by_result[str(event.get("id"))] = step

    def _add_annotation(self, event: Event) -> None:
        data = get_data(event)
        kind = str(data.get("kind") or "")
        if kind == "result_facts":
            parent_id = as_object(event.get("links")).get("parent_id")
            step = self._steps_by_result.get(str(parent_id))
            if step is not None:
                facts = omit_keys(data, "kind")
                step.facts = {**step.facts, **facts}
                return
        cost = data.get("cost_usd")
        # Also refuses what is not a number: no comparison with it holds.
        if kind == "cost" and isinstance(cost, int | float) and 0 <= cost < 1e9:
            self._reported_cost += cost
        cwd = data.get("cwd")
        if kind == "context" and not self._cwd and isinstance(cwd, str) and len(cwd) <= _MAX_CWD:
            self._cwd = cwd.rstrip("/")
        if kind in SESSION_EVENTS or (self._exact and kind not in _USAGE_ANNOTATIONS):
            self._add_step("note", event)

    def build(self, conversation: Conversation, participants: Iterable[Participant]) -> Transcript:
        """Return the transcript of all events."""
        models: list[str] = []
        actors: dict[str, str] = {}
        for participant in participants:
            if not isinstance(participant, dict):
                continue  # type: ignore[unreachable]
            model = participant.get("model")
            if model and str(model) not in models:
                models.append(str(model))
            actor_id = str(participant.get("actor_id"))
            actors[actor_id] = f"{participant.get('kind')} {participant.get('name')}"
        transcript = Transcript(
            steps=self._steps,
            conversation=conversation,
            models=models,
            actors=actors,
            cwd="",
            tokens=dict(self._tokens),
            ms=self._measure_duration(),
            events=self._count,
            cost=self._reported_cost or self._estimated_cost or None,
        )
        transcript.set_cwd("" if self._exact else self._cwd)
        return transcript

    def _measure_duration(self) -> int | None:
        start = to_epoch_ms(_truncate_to_ms(self._first_ts))
        end = to_epoch_ms(_truncate_to_ms(self._last_ts))
        if start is None or end is None or end < start:
            return None
        return end - start


def build_transcript(document: Mapping[str, Any], level: str) -> Transcript:
    """Return the transcript of a document."""
    builder = TranscriptBuilder(level)
    events = document.get("events")
    participants = document.get("participants")
    for event in events if isinstance(events, list) else []:
        builder.take(event)
    conversation: Any = as_object(document.get("conversation"))
    return builder.build(conversation, participants if isinstance(participants, list) else [])


def get_stable_facts(step: Step) -> dict[str, Any]:
    """Return the facts about a result without durations."""
    return omit_keys(step.facts, *_DURATIONS)


def _truncate_to_ms(ts: str | None) -> str | None:
    if ts and "." in ts:
        head, _, fraction = ts.rstrip("Z").partition(".")
        return f"{head}.{fraction[:3]}Z"
    return ts
