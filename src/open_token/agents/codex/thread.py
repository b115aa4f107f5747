"""The state of a Codex thread while its rollout is read: actors, calls, turns and token usage."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

from open_token.agents.codex.records import Line
from open_token.agents.codex.unseen_output import UnseenOutputs
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import drop_nulls
from open_token.formats.shared.responses_content import parse_usage
from open_token.formats.shared.responses_items import ItemActors
from open_token.model.document import Event, Usage, Visibility
from open_token.sources.source import Source

_MAX_RESULTS = 256


@dataclass
class CallEnd:
    """What an event says about the end of a call."""

    call_id: str | None
    tool: str
    arguments: Any
    output: Any
    facts: dict[str, Any]
    ts: str | None
    details: dict[str, Any]
    """What else the tool reported, too large for a fact: the changed files, structured data."""

    @property
    def report(self) -> dict[str, Any]:
        """Everything that the tool returned, whether or not the model saw it."""
        return {"output": self.output, **self.details}


class CallEvent(NamedTuple):
    """A call in the draft: its tool and the position of its event."""

    tool: str
    position: int


@dataclass
class Thread:
    """One thread: the session itself, or a subagent inside a span of it."""

    draft: Draft
    source: Source
    span: str | None = None
    depth: int = 0
    name: str = "assistant"
    provider: str | None = None
    model: str | None = None
    id: str | None = None
    user: str | None = None
    """The actor of user messages, if it is not a person."""
    known_threads: set[str] = field(default_factory=set)
    """The ids of all threads read so far, shared with subagents."""
    read_child: Callable[["Thread"], None] = lambda child: None
    """Reads the rollout of a subagent."""
    parent: Source | None = None
    """The rollout of the thread that started this one."""
    paths: dict[str, "Thread"] = field(default_factory=dict)
    """Threads by the paths with which agents address each other, shared with subagents."""

    def __post_init__(self) -> None:
        self.usage = UsageTracker(self.draft)
        self.turns = Turns(self.draft)
        self.calls: dict[str, CallEvent] = {}
        self._active_calls: list[str] = []
        """The calls that were not rolled back with their turn, in order."""
        self.spawns: dict[str, dict[str, Any]] = {}
        """Arguments of calls that start a subagent, until their output names its thread."""
        self.ends: dict[str, CallEnd] = {}
        """Ends of calls whose output has not come yet."""
        self.results: dict[str, Event] = {}
        """The latest results, as parents for facts that come after them."""
        self.running: set[str] = set()
        """Calls whose output came while their command still ran."""
        self.unseen = UnseenOutputs(self.draft, self.span)
        self.spans: dict[str, tuple[str, int]] = {}
        """The open spans of subagents by thread id, with the positions of their start."""
        self.abandoned_calls: set[str] = set()
        """Open calls of turns that were rolled back: a later result is left out."""
        self.has_meta = False
        self.settings: dict[str, Any] = {}
        """The settings of the last turn."""
        self.instructions: str | None = None
        self.answer_count = 0
        self.was_just_compacted = False
        self._actors: ItemActors | None = None

    @property
    def actors(self) -> ItemActors:
        """The participants of this thread."""
        if self._actors is None:
            self._actors = ItemActors(
                self.draft,
                name=self.name,
                provider=self.provider,
                model=self.model,
                # Subagents with the same name differ by their threads.
                instance_id=self.id if self.depth else None,
                user=self.user,
            )
        return self._actors

    def set_model(self, *, model: str | None = None, provider: str | None = None) -> None:
        """Switch to another model or provider."""
        self.model = model or self.model
        self.provider = provider or self.provider
        self._actors = None

    @property
    def visibility(self) -> Visibility:
        """The visibility of messages: a subagent's conversation with its starter is internal."""
        return "internal" if self.depth else "public"

    def annotate(self, line: Line, kind: str, parent: Event | None = None, **data: Any) -> None:
        """Add an annotation with those of the data that are not None."""
        known = drop_nulls(data)
        self.draft.add_annotation(
            {"kind": kind, **known}, ts=line.ts, span=self.span, parent=parent
        )

    def begin_turn(self, line: Line) -> None:
        """Begin a turn: open calls of the one before get no output any more."""
        self.close_unanswered_calls()
        self.usage.end_turn(line.ts, self.span)
        self.turns.begin()

    def roll_back(self, count: int, line: Line) -> None:
        """Abandon the last turns: nothing may refer to them any more."""
        self.close_unanswered_calls()
        self.usage.end_turn(line.ts, self.span)
        self.results.clear()
        first = self.turns.roll_back(count, self.actors.assistant)
        # With all branches the turns stay in the draft, and so do their calls.
        if self.draft.branches == "all":
            return
        while self._active_calls and self.calls[self._active_calls[-1]].position >= first:
            call_id = self._active_calls.pop()
            if self.draft.is_call_open(call_id):
                self.abandoned_calls.add(call_id)

    def add_call(self, call_id: str, tool: str, position: int) -> None:
        """Remember a call and the position of its event."""
        self.calls[call_id] = CallEvent(tool, position)
        self._active_calls.append(call_id)

    def add_result(self, call_id: str, event_id: str) -> None:
        """Remember a result: facts about it may follow, and need its id and its actor."""
        tool = self.calls[call_id].tool if call_id in self.calls else "tool"
        actor = self.draft.get_actor("tool", tool)
        self.results[call_id] = {"id": event_id, "actor_id": actor}
        if len(self.results) > _MAX_RESULTS:
            del self.results[next(iter(self.results))]

    def close_unanswered_calls(self) -> None:
        """Add results for calls without an output whose end an event reported.

        The model asks for no more output of these turns.
        """
        self.unseen.flush()
        for call_id, end in self.ends.items():
            if end.output is None or not self.draft.is_call_open(call_id):
                continue
            position = self.draft.count
            result = self.draft.add_tool_result(
                call_id, end.output, ts=end.ts, span=self.span, facts=end.facts
            )
            self.unseen.add_report(end.details, call_id, result, end.ts)
            self.turns.assign(self.calls[call_id].position, position)
        self.ends.clear()


class Turns:
    """Where the turns begin, and which events in them belong to an earlier turn."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._starts: list[int] = []
        self._late: list[tuple[int, int, int]] = []
        """Events of an earlier turn: position of their origin, start and stop."""
        self._dropped: list[tuple[int, int]] = []
        """What was rolled back, in order."""
        self._retained: list[tuple[int, int, int]] = []
        """A heap, latest turn first, of late events that a rollback left in place."""

    def begin(self) -> None:
        """Begin a turn with the next event."""
        self._starts.append(self._draft.count)

    def assign(self, origin: int, start: int) -> None:
        """Assign the events from `start` on to the turn of an origin.

        A result belongs to its call, the end of a span to its start.
        """
        if self._starts and origin < self._starts[-1]:
            self._late.append((origin, start, self._draft.count))

    def roll_back(self, count: int, actor: str) -> int:
        """Abandon the last turns and return where they began.

        Events in them that belong to earlier turns stay.
        """
        starts = self._starts[-count:]
        del self._starts[-count:]
        end = self._draft.count
        if not starts:
            return end
        first = starts[0]
        data = {"kind": "abandoned_branch", "reason": "thread_rolled_back", "turns": len(starts)}
        if self._draft.branches == "all":
            self._draft.drop_branch(first, end, data, actor)
        else:
            for start, stop in self._find_dropped(first, end):
                self._draft.drop_branch(start, stop, data, actor)
        return first

    def _find_dropped(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what goes with the turns from `first` on and has not gone yet.

        Each part is looked at once, however often turns are rolled back.
        """
        while self._retained and -self._retained[0][0] >= first:
            _, start, stop = heappop(self._retained)
            yield start, stop
        excluded: list[tuple[int, int]] = []
        while self._late and self._late[-1][1] >= first:
            origin, start, stop = self._late.pop()
            if origin < first:
                heappush(self._retained, (-origin, start, stop))
                excluded.append((start, stop))
        while self._dropped and self._dropped[-1][0] >= first:
            excluded.append(self._dropped.pop())
        self._dropped.append((first, end))
        for start, stop in sorted(excluded):
            yield first, start
            first = stop
        yield first, end


class UsageTracker:
    """Assigns token counts to events of the model, whichever comes first.

    Before 0.50 the count of a request was written before its items, since then after them.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._total: Any = None
        self._early: Usage | None = None
        """A count that came before the items of its request."""
        self._recorded: Usage | None = None
        """The usage of the last answer, until a count repeats it."""
        self._event_id: str | None = None
        """The event of the model that gets the next count."""
        self._has_result = False

    def add_output(self, event_id: str, is_reasoning: bool = False) -> None:
        """Remember an event of the model.

        Reasoning is the last choice: an export may omit it together with its count.
        """
        if not is_reasoning or self._event_id is None or self._has_result:
            self._event_id = event_id
            self._has_result = False

    def add_count(self, info: Any, ts: str | None, span: str | None) -> None:
        """Add a token_count; one that repeats the same totals counts nothing."""
        if not isinstance(info, dict):
            return
        self._recorded = None
        total = info.get("total_token_usage", info)
        if total == self._total:
            return
        self._total = total
        counted = parse_usage(info.get("last_token_usage")) or _parse_oldest_counts(info)
        if not counted or not any(counted.values()):
            return
        self.flush(ts, span)
        if self._event_id:
            self._set_usage(counted)
        else:
            self._early = counted

    def add_record(self, counts: Any) -> None:
        """Add the usage of one answer (token_usage_record, 0.16x), which precedes its count."""
        self._recorded = parse_usage(counts)

    def flush(self, ts: str | None, span: str | None) -> None:
        """End a request: an early count goes to its output, else into an annotation."""
        if self._early and self._event_id:
            self._set_usage(self._early)
        elif self._early:
            data = {"kind": "request_usage"}
            self._draft.add_annotation(data, ts=ts, span=span, usage=self._early)
        self._early = None

    def add_result(self, ts: str | None, span: str | None) -> None:
        """Note that a result came: the output of its request is complete."""
        self._has_result = True
        if self._early and self._event_id:
            self.flush(ts, span)

    def end_turn(self, ts: str | None, span: str | None) -> None:
        """End the turn: later counts belong to later output."""
        self.flush(ts, span)
        if self._recorded and self._event_id:
            self._set_usage(self._recorded)
        self._recorded = None
        self._event_id = None

    def _set_usage(self, counted: Usage) -> None:
        self._draft.set_usage(str(self._event_id), counted)
        self._event_id = None


def _parse_oldest_counts(info: dict[str, Any]) -> Usage | None:
    """Return the two counts of the first versions."""
    return parse_usage(
        {"input_tokens": info.get("prompt"), "output_tokens": info.get("completion")}
    )
