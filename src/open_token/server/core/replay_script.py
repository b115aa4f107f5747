"""The script of a replay: the current branch of a recorded log as steps with pauses."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from msgspec import Struct

from open_token.jsontools.objects import omit_keys
from open_token.model.log_events import Json, LogEntry, NewEvent
from open_token.model.session_types import ROOT_LOOP
from open_token.server.core.services import Services
from open_token.server.core.session_log import is_blob_reference, read_log_pages
from open_token.session import to_stream_item

MAX_PAUSE = 5.0
"""Seconds; longer pauses of the recording are shortened to this."""
_PIECE_SECONDS = 0.04
_MIN_PIECE_LENGTH = 24
_MAX_PIECES = 100
_SESSION_KINDS = frozenset({"error.raised", "notice.given", "mode.changed"})
"""Kinds that may occur outside of a turn."""
_TURN_KINDS = frozenset(
    {
        "turn.status",
        "turn.ended",
        "turn.retried",
        "text.delta",
        "thinking.delta",
        "block.added",
        "tool.called",
        "tool.arguments",
        "tool.status",
        "tool.result",
        "question.asked",
        "question.answered",
        "mode.changed",
        "memory.recalled",
        "usage.counted",
        "compacted",
    }
)


class ScriptItem(Struct, frozen=True):
    """One step of a script."""

    step: NewEvent
    pause: float = 0.0
    """Seconds before the step at the recorded speed."""
    is_input: bool = False
    """Whether the step starts the next message of the user."""
    blob: str | None = None


@dataclass
class Outline:
    """What must be known of a recording before it is played."""

    turns: dict[str, int] = field(default_factory=dict)
    """The turns of the branch, numbered from 1."""
    runs: dict[str, int] = field(default_factory=dict)
    """The runs of these turns, numbered from 1."""
    imported: set[str] = field(default_factory=set)
    """The turns that were imported from a document."""
    checkpointed: set[str] = field(default_factory=set)
    """The turns with a checkpoint before them."""
    openings: dict[str, str] = field(default_factory=dict)
    """By run: the user's turn with which it starts."""
    total: int = 0
    inputs: dict[str, list[str]] = field(default_factory=dict)
    """The texts of the user by turn, in order."""
    positions: dict[str, int] = field(default_factory=dict)
    """The position in the script at which each of these turns starts."""

    def find_next_input(self, position: int) -> tuple[int, str] | None:
        """Return the position and the text of the next input of the user."""
        for turn_id, start in self.positions.items():
            if start >= position:
                return start, "\n".join(self.inputs[turn_id])
        return None


class Script:
    """A recorded session up to a sequence of its log; deterministic for the same replay."""

    def __init__(
        self, services: Services, owner: str, source: str, sequence: int, target: str
    ) -> None:
        self._services = services
        self._owner = owner
        self._source = source
        self._sequence = sequence
        self._target = target.removeprefix("sess_")
        self._outline: Outline | None = None

    async def outline(self) -> Outline:
        """Return the outline; the log is read for it once."""
        if self._outline is None:
            outline = await self._find_branch()
            async for _, entry, items in self._convert_entries(outline):
                _record_input(outline, entry, items)
                outline.total += len(items)
            self._outline = outline
        return self._outline

    async def items(self, position: int) -> AsyncGenerator[ScriptItem, None]:
        """Yield the steps from a position on."""
        async for start, _, items in self._convert_entries(await self.outline()):
            for item in items[max(0, position - start) :]:
                yield item

    async def _entries(self) -> AsyncIterator[LogEntry]:
        pages = read_log_pages(self._services, self._owner, self._source, self._sequence)
        async for page in pages:
            for entry in page:
                yield entry

    async def _convert_entries(
        self, outline: Outline
    ) -> AsyncIterator[tuple[int, LogEntry, list[ScriptItem]]]:
        """Yield each entry with its position in the script and its steps."""
        converter = _Converter(outline, self._target)
        position = 0
        async for entry in self._entries():
            items = list(converter.convert(entry))
            yield position, entry, items
            position += len(items)

    async def _find_branch(self) -> Outline:
        """Find the turns of the current branch, and the runs that they belong to."""
        outline = Outline()
        parents: dict[str, tuple[str | None, str, str | None]] = {}
        head: str | None = None
        run_id: str | None = None
        is_run_new = False
        async for entry in self._entries():
            data = entry.data
            if entry.kind == "turn.opened":
                turn = data["turn"]
                turn_id = turn["turn_id"]
                parents[turn["id"]] = (head, turn_id, run_id)
                head = turn["id"]
                if data.get("imported"):
                    outline.imported.add(turn_id)
                elif run_id is not None and is_run_new and _is_user_turn(turn):
                    outline.openings[run_id] = turn_id
                is_run_new = False
            elif entry.kind == "branch.moved":
                head = data.get("head")
            elif entry.kind == "checkpoint.made" and data.get("turn_id"):
                outline.checkpointed.add(data["turn_id"])
            elif entry.kind == "run.started":
                run_id = data["run_id"]
                is_run_new = True
            elif entry.kind == "run.ended":
                run_id = None
                is_run_new = False
        # From the head back to the first turn: what was rewound or replaced is not replayed.
        turn_ids: list[str] = []
        run_ids: list[str] = []
        while head is not None:
            head, turn_id, turn_run_id = parents[head]
            turn_ids.append(turn_id)
            if turn_run_id:
                run_ids.append(turn_run_id)
        outline.turns = _number(reversed(turn_ids))
        outline.runs = _number(reversed(run_ids))
        return outline


def _number(names: Iterator[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _record_input(outline: Outline, entry: LogEntry, items: list[ScriptItem]) -> None:
    """Add the user's text of an entry to the outline."""
    if _opens_run_with_input(outline, entry):
        turn_id = outline.openings[entry.data["run_id"]]
    else:
        turn_id = str(_find_turn_id(entry))
    if any(item.is_input for item in items):
        outline.inputs[turn_id] = []
        outline.positions[turn_id] = outline.total
    texts = outline.inputs.get(turn_id)
    if texts is None:
        return
    blocks: list[Json] = []
    if entry.kind == "turn.opened":
        blocks = entry.data["turn"].get("blocks", [])
    elif entry.kind in ("event.kept", "block.added"):
        steps = [item.step for item in items]
        blocks = [data["block"] for _, data in steps if "block" in data]
    for block in blocks:
        texts.extend(_extract_texts(block.get("content")))


def _opens_run_with_input(outline: Outline, entry: LogEntry) -> bool:
    """Return whether an entry starts a run for a message of the user, which follows it."""
    return entry.kind == "run.started" and entry.data["run_id"] in outline.openings


def _is_user_turn(turn: Json) -> bool:
    return turn.get("role") == "user" and turn.get("loop_id", ROOT_LOOP) == ROOT_LOOP


def _extract_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        answers = content.get("answers")
        if isinstance(answers, list):
            yield ", ".join(str(answer) for answer in answers)
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield part["text"]


def _find_turn_id(entry: LogEntry) -> Any:
    if entry.kind == "turn.opened":
        data = entry.data.get("turn", {})
    else:
        data = entry.data
    return data.get("turn_id")


class _Converter:
    """Converts entries to script items, with ids of the new session and pauses."""

    def __init__(self, outline: Outline, target: str) -> None:
        self._outline = outline
        self._target = target
        self._last_time: float | None = None
        self._roles: dict[str, str] = {}
        self._run_id: str | None = None
        self._opening_turns = set(outline.openings.values())

    def convert(self, entry: LogEntry) -> Iterator[ScriptItem]:
        """Yield the items of an entry; none for other branches and for bookkeeping."""
        kind = entry.kind
        data = entry.data
        turn_id = _find_turn_id(entry)
        if kind in ("run.started", "run.ended"):
            yield from self._convert_run(entry)
        elif kind in _SESSION_KINDS and not turn_id:
            # Such an entry belongs to the run around it, which may be one of another branch.
            if self._run_id is None or self._run_id in self._outline.runs:
                yield ScriptItem((kind, data), self._next_pause(entry.at))
        elif turn_id not in self._outline.turns:
            return
        elif kind == "checkpoint.made":
            pause = self._next_pause(self._find_time(entry))
            is_input = turn_id not in self._opening_turns
            yield ScriptItem((kind, self._convert_checkpoint(data)), pause, is_input=is_input)
        elif kind == "turn.opened":
            yield self._convert_turn(entry)
        elif kind == "event.kept":
            yield from self._convert_event(entry)
        elif kind in _TURN_KINDS:
            # The fold of the new session derives these again.
            fields = {
                name: value for name, value in data.items() if name not in ("patch", "loop_id")
            }
            fields["turn_id"] = self._new_id("turn", turn_id)
            blob = None
            if kind == "tool.result":
                blob = _find_blob(fields.get("result"))
            pause = self._next_pause(self._find_time(entry))
            yield ScriptItem((kind, fields), pause, blob=blob)

    def _convert_run(self, entry: LogEntry) -> Iterator[ScriptItem]:
        run_id = entry.data["run_id"]
        self._run_id = run_id if entry.kind == "run.started" else None
        number = self._outline.runs.get(run_id)
        if number is None:
            return
        data = dict(entry.data)
        data["run_id"] = f"run_{self._target}_{number}"
        pause = self._next_pause(entry.at)
        is_input = _opens_run_with_input(self._outline, entry)
        yield ScriptItem((entry.kind, data), pause, is_input=is_input)

    def _new_id(self, kind: str, turn_id: Any) -> str:
        return f"{kind}_{self._target}_{self._outline.turns[turn_id]}"

    def _convert_checkpoint(self, data: Json) -> Json:
        turn_id = data["turn_id"]
        return {
            "checkpoint_id": self._new_id("cp", turn_id),
            "turn_id": self._new_id("turn", turn_id),
            "label": data.get("label"),
        }

    def _convert_turn(self, entry: LogEntry) -> ScriptItem:
        turn = entry.data["turn"]
        turn_id = turn["turn_id"]
        self._roles[turn_id] = turn.get("role", "assistant")
        fields = {
            name: value
            for name, value in turn.items()
            if name not in ("id", "sequence", "started_at")
        }
        fields["turn_id"] = self._new_id("turn", turn_id)
        # Otherwise the input has started with the checkpoint or the run before the turn.
        starts_input = (
            turn_id not in self._outline.checkpointed
            and turn_id not in self._outline.imported
            and turn_id not in self._opening_turns
        )
        step: NewEvent = ("turn.opened", {"turn": fields})
        pause = self._next_pause(self._find_time(entry))
        return ScriptItem(step, pause, is_input=_is_user_turn(turn) and starts_input)

    def _convert_event(self, entry: LogEntry) -> Iterator[ScriptItem]:
        """Convert an imported event; text of the assistant is streamed in pieces."""
        item = to_stream_item(entry, cast(Any, None))
        if item is None:
            return
        turn_id = entry.data["turn_id"]
        patch = item["payload"]
        data = omit_keys(patch["data"], "block_index")
        target: Json = {"turn_id": self._new_id("turn", turn_id)}
        pause = self._next_pause(self._find_time(entry))
        if patch["patch_type"] == "add_tool_call":
            yield ScriptItem(("tool.called", target | {"call": data}), pause)
        elif patch["patch_type"] == "tool_result":
            blob = _find_blob(data.get("result"))
            yield ScriptItem(("tool.result", target | data), pause, blob=blob)
        elif self._is_model_text(turn_id, data):
            yield from _stream_block(target, data, pause)
        else:
            yield ScriptItem(("block.added", target | {"block": data}), pause)

    def _is_model_text(self, turn_id: str, block: Json) -> bool:
        if self._roles.get(turn_id) != "assistant":
            return False
        if block.get("type") not in ("text", "thinking"):
            return False
        text = block.get("content")
        return isinstance(text, str) and text != ""

    def _find_time(self, entry: LogEntry) -> str | None:
        """Return when something happened.

        The entries of an import have the time of the import; their events have their own."""
        if entry.kind == "event.kept":
            timestamp = entry.data["event"].get("ts")
            if isinstance(timestamp, str):
                return timestamp
            return None
        if _find_turn_id(entry) in self._outline.imported:
            return None
        return entry.at

    def _next_pause(self, timestamp: str | None) -> float:
        seconds = _parse_seconds(timestamp)
        if seconds is None:
            return 0.0
        previous = self._last_time
        if previous is None:
            self._last_time = seconds
            return 0.0
        self._last_time = max(seconds, previous)
        return min(max(0.0, seconds - previous), MAX_PAUSE)


def _stream_block(target: Json, block: Json, pause: float) -> Iterator[ScriptItem]:
    """Split a block into pieces that fit into the pause before it, if that is long enough."""
    text = block["content"]
    # Rounded up, so that there are at most _MAX_PIECES of them.
    size = math.ceil(len(text) / _MAX_PIECES)
    size = max(_MIN_PIECE_LENGTH, size)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    rest = len(pieces) - 1
    piece_pause = _PIECE_SECONDS
    if pause and rest:
        piece_pause = min(_PIECE_SECONDS, pause / rest)
    first = {**block, "content": pieces[0]}
    first_pause = max(0.0, pause - piece_pause * rest)
    yield ScriptItem(("block.added", target | {"block": first}), first_pause)
    kind = "thinking.delta" if block["type"] == "thinking" else "text.delta"
    for piece in pieces[1:]:
        yield ScriptItem((kind, target | {"text": piece}), piece_pause)


def _find_blob(result: Any) -> str | None:
    return result["blob"] if is_blob_reference(result) else None


def _parse_seconds(timestamp: str | None) -> float | None:
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
