"""Frames: events for subscribers, rendered once per dialect and encoded once per transport."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from open_token.model.log_events import Json, LogEntry, LogError
from open_token.model.session_types import encode
from open_token.server.core.journal import STREAMED_KINDS
from open_token.session import SessionView, to_legacy_event, to_stream_item

Dialect = Literal["raw", "legacy"]
Render = Callable[[Sequence[LogEntry], SessionView | None], "list[Frame]"]

BATCH_EVENT = "turn:events"
SEPARATE_EVENTS = frozenset({"chat:end", "system:error"})
"""Events that clients of the raw dialect also receive on their own, after the batch."""
_MAX_BATCH_ITEMS = 100
_MAX_BATCH_BYTES = 256 << 10
_STATE_DEPENDENT_KINDS = frozenset(
    {
        "turn.ended",
        "session.created",
        "session.changed",
        "branch.moved",
        "replay.changed",
        "mode.changed",
    }
)
"""Kinds whose event contains more than the entry itself."""
_DELTA_FIELDS = {"text.delta": "text", "thinking.delta": "text", "tool.arguments": "delta"}


@dataclass(slots=True, eq=False)
class Frame:
    """One event on its way to many subscribers."""

    name: str
    payload: Json
    items: Sequence[Json] = ()
    """The items of a batch."""
    parts: Sequence[bytes] = ()
    """The same items, encoded as JSON."""
    encoded: dict[str, Any] = field(default_factory=dict)
    """The frame as each transport sends it, so that it is encoded once."""

    def json(self) -> bytes:
        """Return the payload as JSON."""
        if not self.parts:
            return encode(self.payload)
        session_id = encode(self.payload["session_id"])
        return b'{"session_id":%s,"events":[%s]}' % (session_id, b",".join(self.parts))


class _BatchBuilder:
    """Collects items into frames of bounded size."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._items: list[Json] = []
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, item: Json) -> None:
        part = encode(item)
        if len(self._items) == _MAX_BATCH_ITEMS or self._size + len(part) > _MAX_BATCH_BYTES:
            self.close()
        self._items.append(item)
        self._parts.append(part)
        self._size += len(part)

    def close(self) -> None:
        if not self._items:
            return
        session_id = self._items[0]["payload"]["session_id"]
        payload = {"session_id": session_id, "events": self._items}
        self.frames.append(Frame(BATCH_EVENT, payload, self._items, self._parts))
        self._items = []
        self._parts = []
        self._size = 0


def needs_state(dialect: Dialect, entries: Iterable[LogEntry]) -> bool:
    """Return whether rendering these entries needs the state of the session."""
    if dialect == "legacy":
        return True
    return any(entry.kind in _STATE_DEPENDENT_KINDS for entry in entries)


def render_raw(entries: Sequence[LogEntry], view: SessionView | None) -> list[Frame]:
    """Render batches; an event that is also sent on its own closes its batch and follows it."""
    batch = _BatchBuilder()
    for entry in entries:
        item = _render_entry(to_stream_item, entry, view)
        if item is None:
            continue
        batch.add(item)
        if item["type"] in SEPARATE_EVENTS:
            batch.close()
            payload = {**item["payload"], "stream_sequence": entry.seq}
            batch.frames.append(Frame(item["type"], payload))
    batch.close()
    return batch.frames


def render_legacy(entries: Sequence[LogEntry], view: SessionView | None) -> list[Frame]:
    """Render one event per entry.

    Consecutive deltas are joined, because each patch of this dialect carries the whole turn."""
    frames = []
    for entry in _join_deltas(entries):
        event = _render_entry(to_legacy_event, entry, view)
        if event is not None:
            name, payload = event
            frames.append(Frame(name, {**payload, "stream_sequence": entry.seq}))
    return frames


RENDERS: dict[Dialect, Render] = {"raw": render_raw, "legacy": render_legacy}


def _render_entry(
    render: Callable[[LogEntry, Any], Any], entry: LogEntry, view: SessionView | None
) -> Any:
    """Render an entry; None for entries of unknown kinds, which a newer server may have written."""
    try:
        return render(entry, view)
    except LogError:
        return None


def _join_deltas(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """Join consecutive deltas of one block or one tool call; the last one's sequence counts."""
    previous: LogEntry | None = None
    pieces: list[str] = []
    for entry in entries:
        if previous is not None and not _continues(previous, entry):
            yield _with_text(previous, pieces)
            pieces = []
        previous = entry
        if entry.kind in STREAMED_KINDS:
            pieces.append(entry.data.get(_DELTA_FIELDS[entry.kind], ""))
    if previous is not None:
        yield _with_text(previous, pieces)


def _continues(previous: LogEntry, entry: LogEntry) -> bool:
    return entry.kind in STREAMED_KINDS and _delta_target(entry) == _delta_target(previous)


def _delta_target(entry: LogEntry) -> tuple[Any, ...]:
    data = entry.data
    return entry.kind, data.get("turn_id"), data.get("tool_call_id"), data.get("block_index")


def _with_text(entry: LogEntry, pieces: list[str]) -> LogEntry:
    if len(pieces) < 2:
        return entry
    text_field = _DELTA_FIELDS[entry.kind]
    data = dict(entry.data)
    data[text_field] = "".join(pieces)
    return LogEntry(entry.session_id, entry.seq, entry.at, entry.kind, data)
