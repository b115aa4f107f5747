"""What is known of a Codex thread while its rollout is told: who speaks, which calls are open,
which spans."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from open_token.draft import Draft
from open_token.model import Event, Visibility
from open_token.readers._codex_lines import Line
from open_token.readers._codex_spending import Spending
from open_token.readers._codex_turns import Turns
from open_token.readers._wire_responses import Voices
from open_token.source import Source

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
        self._voices: Voices | None = None

    @property
    def voices(self) -> Voices:
        if self._voices is None:
            # A subagent is told apart from others of its name by its thread.
            instance = self.id if self.depth else None
            self._voices = Voices(
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
        self.draft.annotation({"kind": kind, **known}, ts=line.ts, span=self.span, parent=parent)

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
                if self.draft.is_open(call_id := self._made.pop()):
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
        actor = self.draft.actor(
            "tool", self.calls[call_id][0] if call_id in self.calls else "tool"
        )
        self.results[call_id] = {"id": result_id, "actor_id": actor}
        if len(self.results) > _REMEMBERED:
            del self.results[next(iter(self.results))]

    def unanswered(self) -> None:
        """Calls whose output never came, but whose end an event told: that is their result."""
        for call_id, end in self.ends.items():
            if end.output is not None and self.draft.is_open(call_id):
                first = self.draft.count
                self.draft.tool_result(
                    call_id, end.output, ts=end.ts, span=self.span, facts=end.facts
                )
                self.turns.belong(self.calls[call_id][1], first)
        self.ends.clear()
