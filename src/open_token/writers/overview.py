"""The first pass over the events: what a page must know before it begins."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from open_token.jsontools.objects import get_data, get_link
from open_token.model.document import Event, Record
from open_token.model.titles import choose_title, normalize_title, shorten
from open_token.writers.escape import make_visible, to_one_line
from open_token.writers.rows import (
    classify_tool,
    is_failed,
    parse_changes,
    parse_time,
    split_content,
)
from open_token.writers.timeline import Item, TimelineIndex, classify_message

NO_TEXT = "(no text)"
_PROMPT_TITLE_LENGTH = 140
_CHAPTER_LENGTH = 70
_MAX_CHAPTERS = 60
_MIN_CHAPTER_TEXT = 30
_MAX_CONTEXT_POINTS = 100_000
EstimateCost = Callable[[str, Any], float | None]
"""Returns what a response cost, given the id of its actor and its usage; None where unknown."""
_IDLE_SECONDS = 300.0
"""A longer pause is drawn as a gap, and counts as this much active time."""


@dataclass
class Turn:
    """A human prompt and what followed it."""

    id: str
    title: str
    position: tuple[float, int]
    """Active seconds and event count before it."""
    began: float | None
    ended: float | None = None
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    last_answer: str = ""
    """The id of the last message of the model."""
    command: tuple[str, dict[str, Any]] | None = None
    """If it is a command that the person ran: the id of the annotation about it, and its values."""

    @property
    def is_answered(self) -> bool:
        """Whether the model did anything in it."""
        return bool(self.last_answer or self.calls or self.tokens)


class Chapter(NamedTuple):
    """A message of the model that serves as a heading in the outline."""

    turn: int
    event_id: str
    title: str


class FileEdit(NamedTuple):
    """One change of a file by a tool."""

    event_id: str
    added: int
    removed: int


class Failure(NamedTuple):
    """A failed call: active seconds and event count before it, its event and its tool."""

    seconds: float
    position: int
    event_id: str
    tool: str


@dataclass
class SpanUsage:
    """What a subagent used."""

    steps: int = 0
    tokens: int = 0
    began: float | None = None
    ended: float | None = None


@dataclass
class Overview:
    """Totals and indexes of the whole conversation."""

    index: TimelineIndex = field(default_factory=TimelineIndex)
    turns: list[Turn] = field(default_factory=list)
    turn_numbers: dict[str, int] = field(default_factory=dict)
    """The number of a prompt, by the id of its event."""
    chapters: list[Chapter] = field(default_factory=list)
    more_chapters: int = 0
    files: dict[str, list[FileEdit]] = field(default_factory=dict)
    """Edits by path."""
    spans: dict[str, SpanUsage] = field(default_factory=dict)
    context: list[tuple[float, int, int]] = field(default_factory=list)
    """Active seconds, event count and input tokens of each model call."""
    failures: list[Failure] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    """Active seconds before each long pause."""
    events: int = 0
    calls: int = 0
    missing_results: int = 0
    truncated: int = 0
    thoughts: int = 0
    injected: int = 0
    """Messages that the runtime wrote, and commands that the model did not answer."""
    tokens: int = 0
    """Output tokens."""
    input_tokens: int = 0
    """With cached ones."""
    cached_tokens: int = 0
    """Input tokens that were read from a cache."""
    cost: float = 0.0
    """In dollars, as the source reports it."""
    estimated_cost: float = 0.0
    has_unpriced_model: bool = False
    """Whether the estimate leaves a model out, because its price is not known."""
    began: float | None = None
    ended: float | None = None
    active: float = 0.0
    """Seconds without long pauses."""
    cwd: str = ""
    branch: str = ""
    """The last branch of the repository."""

    @property
    def duration(self) -> float:
        """Seconds between the first and the last event; 0 where unknown."""
        if not self.began or not self.ended:
            return 0.0
        return max(0.0, self.ended - self.began)

    def shorten_paths(self, text: str) -> str:
        """Return text with paths relative to the working directory."""
        if not self.cwd or self.cwd not in text:
            return text
        # Only at the start of a path, and where something is left of it: `rm -r /work/` must not
        # lose its target.
        return re.sub(rf"(?<![\w./~-]){re.escape(self.cwd)}/(?=[\w.@-])", "", text)

    def sum_edits(self) -> tuple[int, int]:
        """Return the added and removed lines of all edits."""
        added = 0
        removed = 0
        for edits in self.files.values():
            for edit in edits:
                added += edit.added
                removed += edit.removed
        return added, removed


def build_overview(events: Iterable[Event], estimate_cost: EstimateCost | None = None) -> Overview:
    """Read all events once."""
    builder = _OverviewBuilder(estimate_cost)
    for event in events:
        builder.add(event)
    return builder.finish()


def get_title(record: Record, overview: Overview) -> str:
    """Return the title of the conversation."""
    explicit = record.conversation.get("title")
    if isinstance(explicit, str):
        explicit = make_visible(explicit)
    prompts = (turn.title for turn in overview.turns if turn.title != NO_TEXT)
    conversation_id = str(record.conversation.get("id") or "conversation")
    return choose_title(explicit, prompts, make_visible(conversation_id))


def get_prompt_title(text: str, limit: int = _PROMPT_TITLE_LENGTH) -> str:
    """Return a message as a heading."""
    return shorten(make_visible(normalize_title(text)), limit)


class _Call(NamedTuple):
    seconds: float
    position: int
    event_id: str
    tool: str
    turn_index: int


class _OverviewBuilder:
    def __init__(self, estimate_cost: EstimateCost | None) -> None:
        self._overview = Overview()
        self._estimate_cost = estimate_cost
        self._edits: list[tuple[str, str, FileEdit]] = []
        """Call id, path and edit."""
        self._calls: dict[str, _Call] = {}
        self._calls_by_result: dict[str, str] = {}
        self._calls_without_result: set[str] = set()

    def add(self, event: Event) -> None:
        overview = self._overview
        overview.events += 1
        overview.index.add(event)
        self._advance_time(parse_time(event))
        kind = event.get("type")
        data = get_data(event)
        span_id = get_link(event, "span_id")
        if data.get("truncated") is True:
            overview.truncated += 1
        self._add_usage(event, span_id)
        if kind == "message":
            self._add_message(event, span_id)
        elif kind == "tool_use":
            self._add_call(event, span_id)
        elif kind == "tool_result":
            call_id = get_link(event, "call_id")
            if data.get("missing_result") is True:
                overview.missing_results += 1
                self._calls_without_result.add(call_id)
            self._calls_by_result[str(event.get("id", ""))] = call_id
        elif kind == "annotation":
            self._add_annotation(event, data)

    def _add_annotation(self, event: Event, data: dict[str, Any]) -> None:
        overview = self._overview
        kind = data.get("kind")
        if kind == "user_command":
            self._add_user_command(event, data)
        elif kind == "context":
            self._add_context(data)
        elif kind == "cost":
            cost = data.get("cost_usd")
            # Also refuses what is not a number: no comparison with it holds.
            if isinstance(cost, int | float) and 0 <= cost < 1e9:
                overview.cost += cost

    def _add_context(self, data: dict[str, Any]) -> None:
        overview = self._overview
        cwd = data.get("cwd")
        # A short one, such as `/` or `/c`, would be cut out of nearly every path.
        if not overview.cwd and isinstance(cwd, str) and len(cwd) > 3:
            overview.cwd = cwd.rstrip("/")
        branch = data.get("git_branch")
        if isinstance(branch, str) and branch:
            overview.branch = branch

    def _add_user_command(self, event: Event, data: dict[str, Any]) -> None:
        """Attach a slash command to the prompt that it belongs to, if that is the last one."""
        turns = self._overview.turns
        if not turns or turns[-1].id != get_link(event, "parent_id"):
            return
        event_id = str(event.get("id", ""))
        facts = {name: value for name, value in data.items() if name != "kind"}
        turns[-1].command = event_id, facts

    def _advance_time(self, now: float | None) -> None:
        overview = self._overview
        if now is None:
            return
        if overview.began is None:
            overview.began = now
            overview.ended = now
        previous = overview.ended or now
        step = now - previous
        if step > _IDLE_SECONDS:
            overview.gaps.append(overview.active)
        overview.active += min(max(step, 0.0), _IDLE_SECONDS)
        overview.ended = max(now, previous)
        if overview.turns:
            overview.turns[-1].ended = now

    def _add_usage(self, event: Event, span_id: str) -> None:
        usage: Any = event.get("usage")
        if not isinstance(usage, dict):
            return
        overview = self._overview
        input_tokens = _get_tokens(usage, "input_tokens")
        output_tokens = _get_tokens(usage, "output_tokens")
        overview.tokens += output_tokens
        overview.input_tokens += input_tokens
        overview.cached_tokens += _get_tokens(usage, "cache_read_tokens")
        if self._estimate_cost is not None and (input_tokens or output_tokens):
            cost = self._estimate_cost(str(event.get("actor_id", "")), usage)
            overview.estimated_cost += cost or 0.0
            overview.has_unpriced_model |= cost is None
        if span_id:
            overview.spans.setdefault(span_id, SpanUsage()).tokens += output_tokens
        elif input_tokens and len(overview.context) < _MAX_CONTEXT_POINTS:
            overview.context.append((overview.active, overview.events, input_tokens))
        if overview.turns:
            overview.turns[-1].tokens += output_tokens

    def _add_message(self, event: Event, span_id: str) -> None:
        overview = self._overview
        kind = classify_message(event)
        if kind == "thought":
            overview.thoughts += 1
        if kind == "system":
            overview.injected += 1
        if span_id:
            return
        if kind == "prompt":
            self._add_prompt(event)
        elif kind == "say":
            self._add_answer(event)

    def _drop_unanswered_command(self) -> None:
        """Make the last turn a mere step if it is a command to the runtime, such as /clear."""
        overview = self._overview
        if not overview.turns:
            return
        turn = overview.turns[-1]
        if turn.command is not None and not turn.is_answered:
            overview.turns.pop()
            del overview.turn_numbers[turn.id]
            overview.index.commands[turn.id] = turn.command
            overview.injected += 1

    def _add_prompt(self, event: Event) -> None:
        self._drop_unanswered_command()
        overview = self._overview
        event_id = str(event.get("id", ""))
        overview.turn_numbers[event_id] = len(overview.turns) + 1
        title = get_prompt_title(split_content(event)[0]) or NO_TEXT
        position = overview.active, overview.events
        time = parse_time(event)
        overview.turns.append(Turn(event_id, title, position, time, time))

    def _add_answer(self, event: Event) -> None:
        overview = self._overview
        event_id = str(event.get("id", ""))
        text = split_content(event)[0]
        if overview.turns and text.strip():
            overview.turns[-1].last_answer = event_id
        if len(text) <= _MIN_CHAPTER_TEXT:
            return
        if len(overview.chapters) == _MAX_CHAPTERS:
            overview.more_chapters += 1
            return
        title = get_prompt_title(text, _CHAPTER_LENGTH)
        overview.chapters.append(Chapter(len(overview.turns), event_id, title))

    def _add_call(self, event: Event, span_id: str) -> None:
        overview = self._overview
        data = get_data(event)
        event_id = str(event.get("id", ""))
        call_id = get_link(event, "call_id")
        tool = str(data.get("tool_name") or "tool")
        overview.calls += 1
        if overview.turns:
            overview.turns[-1].calls += 1
        if span_id:
            span = overview.spans.setdefault(span_id, SpanUsage())
            span.steps += 1
            span.began = span.began or overview.ended
            span.ended = overview.ended
        self._calls[call_id] = _Call(
            overview.active,
            overview.events,
            event_id,
            to_one_line(tool, 60),
            len(overview.turns) - 1,
        )
        kind = classify_tool(tool, data.get("arguments"))
        if kind not in ("edit", "write"):
            return
        for change in parse_changes(kind, data.get("arguments")):
            edit = FileEdit(event_id, change.added, change.removed)
            self._edits.append((call_id, change.path, edit))

    def finish(self) -> Overview:
        self._drop_unanswered_command()
        overview = self._overview
        failed = self._find_failed_calls()
        for call_id, call in self._calls.items():
            if call_id not in failed:
                continue
            failure = Failure(call.seconds, call.position, call.event_id, call.tool)
            overview.failures.append(failure)
            if call.turn_index >= 0:
                overview.turns[call.turn_index].failed += 1
        undone = failed | self._calls_without_result
        for call_id, path, edit in self._edits:
            is_done = call_id not in undone and call_id in overview.index.answered_calls
            if is_done and path:
                overview.files.setdefault(path, []).append(edit)
        return overview

    def _find_failed_calls(self) -> set[str]:
        failed: set[str] = set()
        for result_id, (_, facts) in self._overview.index.result_facts.items():
            call_id = self._calls_by_result.get(result_id, "")
            if call_id in self._calls and is_failed(Item("call", {}, facts=facts)):
                failed.add(call_id)
        return failed


def _get_tokens(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    if type(value) is int and value > 0:
        return value
    return 0
