"""What a replay plays: the current branch of a recorded log as steps, each with the pause before
it."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from msgspec import Struct

from open_token.model.log_events import Json, LogEntry, NewEvent
from open_token.model.session_types import ROOT_LOOP
from open_token.server._log_file import entries_of, is_reference
from open_token.server.services import Services
from open_token.session import to_stream_item

LONGEST = 5.0
"""Seconds; nobody waits longer for the next thing to happen, however long it took."""
_PIECE_SECONDS = 0.04
_LETTERS = 24
_MOST_PIECES = 100
_BESIDE = frozenset({"error.raised", "notice.given", "mode.changed"})
_ON_TURNS = frozenset(
    "turn.status turn.ended text.delta thinking.delta block.added tool.called tool.arguments tool.status tool.result "
    "question.asked question.answered mode.changed memory.recalled usage.counted compacted".split()
)


class Item(Struct, frozen=True):
    """One thing that happens."""

    step: NewEvent
    pause: float = 0.0
    """The seconds before it at the speed at which it was recorded."""
    is_input: bool = False
    """The person's next message begins with it."""
    blob: str | None = None


@dataclass
class Outline:
    """What must be known of a recording before it is played: its branch, its length, what the
    person said."""

    turns: dict[str, int] = field(default_factory=dict)
    """The turns of the branch, numbered."""
    runs: dict[str, int] = field(default_factory=dict)
    """The runs in which they were, numbered."""
    imported: set[str] = field(default_factory=set)
    marked: set[str] = field(default_factory=set)
    """The turns that have a checkpoint."""
    openings: dict[str, str] = field(default_factory=dict)
    """By run: the turn of the person's with which it begins."""
    total: int = 0
    inputs: dict[str, list[str]] = field(default_factory=dict)
    """What the person said, by turn, in order."""
    places: dict[str, int] = field(default_factory=dict)
    """Where each of these begins in the script."""

    def expected(self, position: int) -> tuple[int, str] | None:
        """The next thing that the person said, and its place."""
        for turn, place in self.places.items():
            if place >= position:
                return place, "\n".join(self.inputs[turn])
        return None


class Script:
    """A recorded session up to a sequence of its log, as a replay writes it; always the same for
    the same replay."""

    def __init__(
        self, services: Services, owner: str, source: str, sequence: int, target: str
    ) -> None:
        self._services = services
        self._owner, self._source, self._sequence = owner, source, sequence
        self._target = target.removeprefix("sess_")
        self._outline: Outline | None = None

    async def outline(self) -> Outline:
        """What there is to play."""
        if self._outline is None:
            found = await self._branch()
            async for _, entry, items in self._played(found):
                _note_input(found, entry, items)
                found.total += len(items)
            self._outline = found
        return self._outline

    async def items(self, position: int) -> AsyncGenerator[Item, None]:
        """What happens from a position on."""
        async for place, _, items in self._played(await self.outline()):
            for item in items[max(0, position - place) :]:
                yield item

    async def _entries(self) -> AsyncIterator[LogEntry]:
        async for page in entries_of(self._services, self._owner, self._source, self._sequence):
            for entry in page:
                yield entry

    async def _played(self, outline: Outline) -> AsyncIterator[tuple[int, LogEntry, list[Item]]]:
        """Every entry with what it is in the script, and the place of that."""
        score, place = _Score(outline, self._target), 0
        async for entry in self._entries():
            items = list(score.items(entry))
            yield place, entry, items
            place += len(items)

    async def _branch(self) -> Outline:
        """The turns from the beginning to where the log ends, and the runs in which they were."""
        found = Outline()
        parents: dict[str, tuple[str | None, str, str | None]] = {}
        head: str | None = None
        run: str | None = None
        is_fresh = False
        async for entry in self._entries():
            data = entry.data
            if entry.kind == "turn.opened":
                turn = data["turn"]
                parents[turn["id"]] = (head, turn["turn_id"], run)
                head = turn["id"]
                if data.get("imported"):
                    found.imported.add(turn["turn_id"])
                elif run is not None and is_fresh and _is_persons(turn):
                    found.openings[run] = turn["turn_id"]
                is_fresh = False
            elif entry.kind == "branch.moved":
                head = data.get("head")
            elif entry.kind == "checkpoint.made" and data.get("turn_id"):
                found.marked.add(data["turn_id"])
            elif entry.kind in ("run.started", "run.ended"):
                is_fresh = entry.kind == "run.started"
                run = data["run_id"] if is_fresh else None
        way: list[tuple[str, str | None]] = []
        while head is not None:
            head, name, within = parents[head]
            way.append((name, within))
        found.turns = {name: number for number, (name, _) in enumerate(reversed(way), 1)}
        runs = dict.fromkeys(within for _, within in reversed(way) if within)
        found.runs = {name: number for number, name in enumerate(runs, 1)}
        return found


def _note_input(outline: Outline, entry: LogEntry, items: list[Item]) -> None:
    """Remember what the person says."""
    name = (
        outline.openings[entry.data["run_id"]] if _opens(outline, entry) else str(_turn_of(entry))
    )
    if any(item.is_input for item in items):
        outline.inputs[name] = []
        outline.places[name] = outline.total
    said = outline.inputs.get(name)
    if said is None:
        return
    blocks = entry.data["turn"].get("blocks", []) if entry.kind == "turn.opened" else []
    if entry.kind in ("event.kept", "block.added"):
        blocks = [step["block"] for _, step in (item.step for item in items) if "block" in step]
    for block in blocks:
        said.extend(_words(block.get("content")))


def _opens(outline: Outline, entry: LogEntry) -> bool:
    """Whether the person's next message begins with a run, which is told before the message
    itself."""
    return entry.kind == "run.started" and entry.data["run_id"] in outline.openings


def _is_persons(turn: Json) -> bool:
    return turn.get("role") == "user" and turn.get("loop_id", ROOT_LOOP) == ROOT_LOOP


def _words(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict) and isinstance(answers := content.get("answers"), list):
        yield ", ".join(str(answer) for answer in answers)
    elif isinstance(content, list):
        yield from (
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )


def _turn_of(entry: LogEntry) -> Any:
    place = entry.data.get("turn", {}) if entry.kind == "turn.opened" else entry.data
    return place.get("turn_id")


class _Score:
    """Turns entries into items: names of the new session's own, and pauses."""

    def __init__(self, outline: Outline, target: str) -> None:
        self._outline = outline
        self._target = target
        self._last: float | None = None
        self._roles: dict[str, str] = {}
        self._run: str | None = None
        self._begun = set(outline.openings.values())

    def items(self, entry: LogEntry) -> Iterator[Item]:
        """What an entry is in the script; nothing when it belongs to another branch or to the
        bookkeeping."""
        kind, data, turn = entry.kind, entry.data, _turn_of(entry)
        if kind in ("run.started", "run.ended"):
            yield from self._of_run(entry)
        elif kind in _BESIDE and not turn:
            if self._run is None or self._run in self._outline.runs:
                yield Item((kind, data), self._pause(entry.at))
        elif turn not in self._outline.turns:
            return
        elif kind == "checkpoint.made":
            is_input = turn not in self._begun
            yield Item(
                (kind, self._checkpoint(data)), self._pause(self._time(entry)), is_input=is_input
            )
        elif kind == "turn.opened":
            yield self._opened(entry)
        elif kind == "event.kept":
            yield from self._kept(entry)
        elif kind in _ON_TURNS:
            held = {name: value for name, value in data.items() if name not in ("patch", "loop_id")}
            blob = _blob(held.get("result")) if kind == "tool.result" else None
            yield Item(
                (kind, held | {"turn_id": self._name(turn)}),
                self._pause(self._time(entry)),
                blob=blob,
            )

    def _of_run(self, entry: LogEntry) -> Iterator[Item]:
        name = entry.data["run_id"]
        self._run = name if entry.kind == "run.started" else None
        if name in self._outline.runs:
            data = {**entry.data, "run_id": f"run_{self._target}_{self._outline.runs[name]}"}
            yield Item(
                (entry.kind, data), self._pause(entry.at), is_input=_opens(self._outline, entry)
            )

    def _name(self, turn: Any, kind: str = "turn") -> str:
        return f"{kind}_{self._target}_{self._outline.turns[turn]}"

    def _checkpoint(self, data: Json) -> Json:
        turn = data["turn_id"]
        return {
            "checkpoint_id": self._name(turn, "cp"),
            "turn_id": self._name(turn),
            "label": data.get("label"),
        }

    def _opened(self, entry: LogEntry) -> Item:
        given = entry.data["turn"]
        turn = given["turn_id"]
        self._roles[turn] = given.get("role", "assistant")
        held = {
            name: value
            for name, value in given.items()
            if name not in ("id", "sequence", "started_at")
        }
        is_first = (
            turn not in self._outline.marked
            and turn not in self._outline.imported
            and turn not in self._begun
        )
        step: NewEvent = ("turn.opened", {"turn": held | {"turn_id": self._name(turn)}})
        return Item(step, self._pause(self._time(entry)), is_input=_is_persons(given) and is_first)

    def _kept(self, entry: LogEntry) -> Iterator[Item]:
        """An event of a document: its words come in pieces, as if they were said now."""
        told = to_stream_item(entry, cast(Any, None))
        if told is None:
            return
        turn, patch = entry.data["turn_id"], told["payload"]
        data = {name: value for name, value in patch["data"].items() if name != "block_index"}
        about: Json = {"turn_id": self._name(turn)}
        pause = self._pause(self._time(entry))
        if patch["patch_type"] == "add_tool_call":
            yield Item(("tool.called", about | {"call": data}), pause)
        elif patch["patch_type"] == "tool_result":
            yield Item(("tool.result", about | data), pause, blob=_blob(data.get("result")))
        elif self._is_spoken(turn, data):
            yield from _spoken(about, data, pause)
        else:
            yield Item(("block.added", about | {"block": data}), pause)

    def _is_spoken(self, turn: str, block: Json) -> bool:
        words = block.get("content")
        is_speech = self._roles.get(turn) == "assistant" and block.get("type") in (
            "text",
            "thinking",
        )
        return is_speech and isinstance(words, str) and words != ""

    def _time(self, entry: LogEntry) -> str | None:
        """When it happened; entries of an import were all made at once, and their events say
        when."""
        if entry.kind == "event.kept":
            ts = entry.data["event"].get("ts")
            return ts if isinstance(ts, str) else None
        return None if _turn_of(entry) in self._outline.imported else entry.at

    def _pause(self, at: str | None) -> float:
        moment = _seconds(at)
        if moment is None:
            return 0.0
        before, self._last = self._last, max(moment, self._last or moment)
        return min(max(0.0, moment - before), LONGEST) if before is not None else 0.0


def _spoken(about: Json, block: Json, pause: float) -> Iterator[Item]:
    """A block that grows, within the pause before it when that is long enough."""
    words = block["content"]
    size = max(_LETTERS, -(-len(words) // _MOST_PIECES))
    pieces = [words[place : place + size] for place in range(0, len(words), size)]
    further = len(pieces) - 1
    each = min(_PIECE_SECONDS, pause / further) if pause and further else _PIECE_SECONDS
    first = {**block, "content": pieces[0]}
    yield Item(("block.added", about | {"block": first}), max(0.0, pause - each * further))
    kind = "thinking.delta" if block["type"] == "thinking" else "text.delta"
    for piece in pieces[1:]:
        yield Item((kind, about | {"text": piece}), each)


def _blob(result: Any) -> str | None:
    return result["blob"] if is_reference(result) else None


def _seconds(at: str | None) -> float | None:
    try:
        moment = datetime.fromisoformat(at or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
