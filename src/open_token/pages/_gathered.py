"""The first walk over the events: what a page must know before it begins, and no more than that."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from open_token.model.document import Event
from open_token.pages._escaped import one_line, plain
from open_token.pages._tools import kind_of
from open_token.pages.rows import changes_of, is_failed, moment, said
from open_token.pages.story import Item, Known, data_of, link_of, speaker

_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,60}>")
_START = re.compile(r"^[#>*\-\s\"`]+")
_TYPED = "## My request for Codex:"
_CHAPTERS = 60
_IDLE = 300.0
_POINTS = 100_000


@dataclass
class Turn:
    """A prompt, and what came of it."""

    id: str
    title: str
    at: tuple[float, int]
    """Where it stands on the strip: seconds, and the place among the events."""
    began: float | None
    ended: float | None = None
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    last: str = ""
    """The id of the last answer."""


@dataclass
class Spent:
    """What a subagent took."""

    steps: int = 0
    tokens: int = 0
    began: float | None = None
    ended: float | None = None


@dataclass
class Gathered:
    """All that is known of the whole."""

    known: Known = field(default_factory=Known)
    turns: list[Turn] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """The number of a prompt, by the id of its event."""
    chapters: list[tuple[int, str, str]] = field(default_factory=list)
    """What the agent said: the number of the prompt before it, the id of the event, its first
    words."""
    more_chapters: int = 0
    files: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    """By path: each edit, as the id of its event and the lines that came and went."""
    spans: dict[str, Spent] = field(default_factory=dict)
    context: list[tuple[float, int, int]] = field(default_factory=list)
    """Seconds, place, tokens of the prompt."""
    failures: list[tuple[float, int, str, str]] = field(default_factory=list)
    """Seconds, place, the id of the event, the words of the row."""
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """Where nothing happened for long: seconds on the strip, seconds in the world."""
    events: int = 0
    calls: int = 0
    missing: int = 0
    cut: int = 0
    thoughts: int = 0
    tokens: int = 0
    cost: float = 0.0
    began: float | None = None
    ended: float | None = None
    active: float = 0.0
    folder: str = ""
    """Where it ran."""

    def near(self, text: str) -> str:
        """Paths as one sees them from the folder it ran in."""
        if not self.folder or self.folder not in text:
            return text
        # Only where the path begins, and something is left of it: `rm -r /work/` must not lose its
        # object.
        return re.sub(rf"(?<![\w./~-]){re.escape(self.folder)}/(?=[\w.@-])", "", text)


def gather(events: Iterable[Event]) -> Gathered:
    """Walk over all events once."""
    walk = _Walk()
    for event in events:
        walk.take(event)
    return walk.finish()


class _Walk:
    def __init__(self) -> None:
        self.made = Gathered()
        self._edits: list[tuple[str, str, str, int, int]] = []
        self._calls: dict[str, tuple[float, int, str, str, int]] = {}
        self._results: dict[str, str] = {}
        self._unknown: set[str] = set()

    def take(self, event: Event) -> None:
        made, kind = self.made, event.get("type")
        made.events += 1
        made.known.take(event)
        self._tick(moment(event))
        span = link_of(event, "span_id")
        if data_of(event).get("truncated") is True:
            made.cut += 1
        self._usage(event, span)
        if kind == "message":
            self._message(event, span)
        elif kind == "tool_use":
            self._call(event, span)
        elif kind == "tool_result":
            if data_of(event).get("missing_result") is True:
                made.missing += 1
                self._unknown.add(link_of(event, "call_id"))
            self._results[str(event.get("id", ""))] = link_of(event, "call_id")
        elif kind == "annotation" and data_of(event).get("kind") == "context" and not made.folder:
            folder = data_of(event).get("cwd")
            made.folder = folder.rstrip("/") if isinstance(folder, str) and len(folder) > 3 else ""
        elif kind == "annotation" and data_of(event).get("kind") == "cost":
            cost = data_of(event).get("cost_usd")
            made.cost += cost if isinstance(cost, int | float) and 0 <= cost < 1e9 else 0

    def _tick(self, now: float | None) -> None:
        made = self.made
        if now is None:
            return
        if made.began is None:
            made.began = made.ended = now
        step = now - (made.ended or now)
        if step > _IDLE:
            made.gaps.append((made.active, step))
        made.active += min(max(step, 0.0), _IDLE)
        made.ended = max(now, made.ended or now)
        if made.turns:
            made.turns[-1].ended = now

    def _usage(self, event: Event, span: str) -> None:
        usage: Any = event.get("usage")
        if not isinstance(usage, dict):
            return
        made = self.made
        asked, answered = (
            value if type(value := usage.get(name)) is int and value > 0 else 0
            for name in ("input_tokens", "output_tokens")
        )
        made.tokens += answered
        if span:
            made.spans.setdefault(span, Spent()).tokens += answered
        elif asked and len(made.context) < _POINTS:
            made.context.append((made.active, made.events, asked))
        if made.turns:
            made.turns[-1].tokens += answered

    def _message(self, event: Event, span: str) -> None:
        made, who = self.made, speaker(event)
        made.thoughts += who == "thought"
        if span or who not in ("prompt", "say"):
            return
        name = str(event.get("id", ""))
        text = said(event)[0]
        if who == "prompt":
            at = made.active, made.events
            made.numbers[name] = len(made.turns) + 1
            made.turns.append(
                Turn(name, title_of(text) or "(no words)", at, moment(event), moment(event))
            )
        else:
            if made.turns and text.strip():
                made.turns[-1].last = name
            if len(text) > 30 and len(made.chapters) < _CHAPTERS:
                made.chapters.append((len(made.turns), name, title_of(text, 70)))
            elif len(text) > 30:
                made.more_chapters += 1

    def _call(self, event: Event, span: str) -> None:
        made, data, name = self.made, data_of(event), str(event.get("id", ""))
        made.calls += 1
        call, tool = link_of(event, "call_id"), str(data.get("tool_name") or "tool")
        if made.turns:
            made.turns[-1].calls += 1
        if span:
            spent = made.spans.setdefault(span, Spent())
            spent.steps += 1
            spent.began = spent.began or made.ended
            spent.ended = made.ended
        self._calls[call] = made.active, made.events, name, one_line(tool, 60), len(made.turns) - 1
        kind = kind_of(tool, data.get("arguments"))
        if kind in ("edit", "write"):
            for change in changes_of(kind, data.get("arguments")):
                self._edits.append((call, change.path, name, change.added, change.removed))

    def finish(self) -> Gathered:
        made, failed = self.made, set()
        for result, (_, facts) in made.known.facts.items():
            call = self._results.get(result, "")
            if is_failed(Item("call", {}, facts=facts)) and call in self._calls:
                failed.add(call)
        for call, (seconds, place, name, tool, turn) in self._calls.items():
            if call in failed:
                made.failures.append((seconds, place, name, tool))
                if turn >= 0:
                    made.turns[turn].failed += 1
        undone = failed | self._unknown
        for call, path, name, added, removed in self._edits:
            if call not in undone and call in made.known.answered and path:
                made.files.setdefault(path, []).append((name, added, removed))
        return made


def title_of_all(whole: Gathered, told: str) -> str:
    """The title of the conversation: its own, or that of the first prompt that is more than a
    command."""
    titles = [turn.title for turn in whole.turns[:20]]
    said_first = next(
        (title for title in titles if len(title) > 8 and not title.startswith("/")), ""
    )
    return title_of(told) or said_first or (titles[0] if titles else "A conversation")


def title_of(text: str, longest: int = 140) -> str:
    """A title out of a prompt: tags, marks of Markdown and lines that say nothing peeled off."""
    # Codex puts what its editor shows before what the person typed.
    head = plain(text.partition(_TYPED)[2][:6000] or text[:6000])
    if head.count("\\n") > 5 and head.count("\n") < 3:
        head = head.replace("\\n", "\n")
    words = ""
    for line in _TAG.sub(" ", head).split("\n"):
        line = _START.sub("", line).strip()
        words = words or line
        if len(line) > 8:
            return one_line(line, longest)
    return one_line(words, longest)
