"""What is known of a Codex thread while its rollout is told: who speaks, which calls are open,
which spans."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from open_token.agents.codex.lines import Line
from open_token.builder.draft import Draft
from open_token.formats.shared.responses_content import parse_usage
from open_token.formats.shared.responses_items import ItemActors
from open_token.model.document import Event, Usage, Visibility
from open_token.sources.source import Source

_REMEMBERED = 256


@dataclass
class End:
    """What an event says of the end of a call, until its output comes."""

    call_id: str | None
    tool: str
    arguments: Any
    output: Any
    facts: dict[str, Any]
    ts: str | None


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
    """The actor who speaks as user, when it is not a person."""
    told: set[str] = field(default_factory=set)
    """The ids of all threads told so far, shared with subagents."""
    tell_child: Callable[["Thread"], None] = lambda child: None
    """How a subagent's own rollout is told."""
    parent: Source | None = None
    """The rollout of the thread that sent this one."""
    paths: dict[str, "Thread"] = field(default_factory=dict)
    """The threads by the names that agents call each other, shared with subagents."""

    def __post_init__(self) -> None:
        self.spending = Spending(self.draft)
        self.turns = Turns(self.draft)
        self.calls: dict[str, tuple[str, int]] = {}
        """The tool of each call told, and the place of its event."""
        self._made: list[str] = []
        """The calls that were not taken back with their turn, in order."""
        self.spawns: dict[str, dict[str, Any]] = {}
        """Arguments of calls that send a subagent, until their output names it."""
        self.ends: dict[str, End] = {}
        """Ends of calls whose output has not come yet."""
        self.results: dict[str, Event] = {}
        self.spans: dict[str, tuple[str, int]] = {}
        """The open spans of subagents by thread id, and where they begin."""
        self.abandoned: set[str] = set()
        """Calls of turns that were taken back; a result that comes later has nowhere to stand."""
        self.has_meta = False
        self.settings: dict[str, Any] = {}
        """What was last told of the turns' settings."""
        self.instructions: str | None = None
        self.answers = 0
        self.just_compacted = False
        self._voices: ItemActors | None = None

    @property
    def voices(self) -> ItemActors:
        if self._voices is None:
            # A subagent is told apart from others of its name by its thread.
            instance = self.id if self.depth else None
            self._voices = ItemActors(
                self.draft,
                name=self.name,
                provider=self.provider,
                model=self.model,
                instance_id=instance,
                user=self.user,
            )
        return self._voices

    def speaks_as(self, *, model: str | None = None, provider: str | None = None) -> None:
        """From now on another model speaks."""
        self.model, self.provider = model or self.model, provider or self.provider
        self._voices = None

    def note(self, line: Line, kind: str, parent: Event | None = None, **data: Any) -> None:
        """A fact beside the talk, without what is not known."""
        known = {name: value for name, value in data.items() if value is not None}
        self.draft.add_annotation(
            {"kind": kind, **known}, ts=line.ts, span=self.span, parent=parent
        )

    def begin_turn(self, line: Line) -> None:
        """The user speaks: calls of the turn before get no result any more."""
        self.unanswered()
        self.spending.turn(line.ts, self.span)
        self.turns.begin()

    def take_back(self, count: int, line: Line) -> None:
        """Turns are taken back: nothing may refer to them any more."""
        self.unanswered()
        self.spending.turn(line.ts, self.span)
        self.results.clear()
        first = self.turns.take_back(count, self.voices.assistant)
        if self.draft.branches != "all":
            while self._made and self.calls[self._made[-1]][1] >= first:
                if self.draft.is_call_open(call_id := self._made.pop()):
                    self.abandoned.add(call_id)

    @property
    def visibility(self) -> Visibility:
        """Who may see what is said here: what a subagent and its starter say to each other is
        internal."""
        return "internal" if self.depth else "public"

    def called(self, call_id: str, tool: str, place: int) -> None:
        """A call whose event stands at a place."""
        self.calls[call_id] = tool, place
        self._made.append(call_id)

    def remember(self, call_id: str, result_id: str) -> None:
        """Facts about a result may come after it; they need no more of it than its id and its
        tool."""
        actor = self.draft.get_actor(
            "tool", self.calls[call_id][0] if call_id in self.calls else "tool"
        )
        self.results[call_id] = {"id": result_id, "actor_id": actor}
        if len(self.results) > _REMEMBERED:
            del self.results[next(iter(self.results))]

    def unanswered(self) -> None:
        """Calls whose output never came, but whose end an event told: that is their result."""
        for call_id, end in self.ends.items():
            if end.output is not None and self.draft.is_call_open(call_id):
                first = self.draft.count
                self.draft.add_tool_result(
                    call_id, end.output, ts=end.ts, span=self.span, facts=end.facts
                )
                self.turns.belong(self.calls[call_id][1], first)
        self.ends.clear()


class Turns:
    """Where the turns begin, and which events in them belong to an earlier turn."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._starts: list[int] = []
        self._late: list[tuple[int, int, int]] = []
        self._gone: list[tuple[int, int]] = []
        """What was taken back, in order."""
        self._kept: list[tuple[int, int, int]] = []
        """A heap, latest turn first: what belongs to an earlier turn, and so stayed in what was
        taken back."""

    def begin(self) -> None:
        """A turn begins with the next event."""
        self._starts.append(self._draft.count)

    def belong(self, origin: int, first: int) -> None:
        """The events from place `first` on belong to the one at `origin`: a result to its call, an
        end to its span."""
        if self._starts and origin < self._starts[-1]:
            self._late.append((origin, first, self._draft.count))

    def take_back(self, count: int, actor: str) -> int:
        """The last turns are left as a branch; tells where they began. What belongs to earlier
        turns stays."""
        left = self._starts[-count:]
        del self._starts[-count:]
        end = self._draft.count
        if not left:
            return end
        first = left[0]
        data = {"kind": "abandoned_branch", "reason": "thread_rolled_back", "turns": len(left)}
        parts = [(first, end)] if self._draft.branches == "all" else self._left(first, end)
        for start, stop in parts:
            self._draft.drop_branch(start, stop, data, actor)
        return first

    def _left(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """What goes with the turns from a place on and has not gone yet; each part is looked at
        once, however often."""
        while self._kept and -self._kept[0][0] >= first:
            _, start, stop = heappop(self._kept)
            yield start, stop
        settled: list[tuple[int, int]] = []
        while self._late and self._late[-1][1] >= first:
            origin, start, stop = self._late.pop()
            if origin < first:
                heappush(self._kept, (-origin, start, stop))
                settled.append((start, stop))
        while self._gone and self._gone[-1][0] >= first:
            settled.append(self._gone.pop())
        self._gone.append((first, end))
        for start, stop in sorted(settled):
            yield first, start
            first = stop
        yield first, end


class Spending:
    """Joins counts and events, whichever comes first: before 0.50 the count stood before the items
    of its request."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._total: Any = None
        self._early: Usage | None = None
        self._recorded: Usage | None = None
        """What the last answer cost, as long as no count has told it."""
        self._spoken: str | None = None
        self._is_answered = False

    def spoke(self, event_id: str, is_thought: bool = False) -> None:
        """The model spoke in this event. A thought is the last choice: an export may leave it out
        with its count."""
        if not is_thought or self._spoken is None or self._is_answered:
            self._spoken, self._is_answered = event_id, False

    def counted(self, info: Any, ts: str | None, span: str | None) -> None:
        """A count came; the same totals told again count nothing."""
        if not isinstance(info, dict):
            return
        self._recorded = None
        total = info.get("total_token_usage", info)
        if total == self._total:
            return
        self._total = total
        made = parse_usage(info.get("last_token_usage")) or _oldest(info)
        if not made or not any(made.values()):
            return
        self.settle(ts, span)
        if self._spoken:
            self._give(made)
        else:
            self._early = made

    def recorded(self, counts: Any) -> None:
        """What one answer cost (token_usage_record, 0.16x), told before its calls are done; the
        count comes after."""
        self._recorded = parse_usage(counts)

    def settle(self, ts: str | None, span: str | None) -> None:
        """A request is over: a count that came early goes to what was said since, or stands
        alone."""
        if self._early and self._spoken:
            self._give(self._early)
        elif self._early:
            self._draft.add_annotation(
                {"kind": "request_usage"}, ts=ts, span=span, usage=self._early
            )
        self._early = None

    def answered(self, ts: str | None, span: str | None) -> None:
        """A result came: what the model said for it was said before."""
        self._is_answered = True
        if self._early and self._spoken:
            self.settle(ts, span)

    def turn(self, ts: str | None, span: str | None) -> None:
        """Someone else speaks, or nobody more: what the model said before is not counted any
        more."""
        self.settle(ts, span)
        if self._recorded and self._spoken:
            self._give(self._recorded)
        self._recorded = None
        self._spoken = None

    def _give(self, made: Usage) -> None:
        self._draft.set_usage(str(self._spoken), made)
        self._spoken = None


def _oldest(info: dict[str, Any]) -> Usage | None:
    """The two counts of the first versions."""
    return parse_usage(
        {"input_tokens": info.get("prompt"), "output_tokens": info.get("completion")}
    )
