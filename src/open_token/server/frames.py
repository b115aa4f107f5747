"""What is sent to those who watch a session: made once for each dialect, encoded once for each way
it travels."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from open_token.model.log_events import Json, LogEntry, LogError
from open_token.model.session_types import encode
from open_token.server.journal import STREAMED
from open_token.session import SessionView, to_legacy_event, to_stream_item

Dialect = Literal["raw", "legacy"]
Render = Callable[[Sequence[LogEntry], SessionView | None], "list[Frame]"]

BATCH = "turn:events"
APART = frozenset({"chat:end", "system:error"})
"""Clients of the raw dialect listen to these as events of their own, too."""
_MOST_ITEMS, _MOST_BYTES = 100, 256 << 10
_LOOKED_UP = frozenset(
    {
        "turn.ended",
        "session.created",
        "session.changed",
        "branch.moved",
        "replay.changed",
        "mode.changed",
    }
)
"""The kinds that tell of more than what stands in the entry."""
_PIECE = {"text.delta": "text", "thinking.delta": "text", "tool.arguments": "delta"}


@dataclass(slots=True, eq=False)
class Frame:
    """One event on its way to many."""

    name: str
    payload: Json
    items: Sequence[Json] = ()
    """The items of a batch."""
    parts: Sequence[bytes] = ()
    """The same as JSON."""
    made: dict[str, Any] = field(default_factory=dict)
    """The frame as each way of travelling wants it, so that it is made once."""

    def json(self) -> bytes:
        """The payload as JSON."""
        if not self.parts:
            return encode(self.payload)
        return b'{"session_id":%s,"events":[%s]}' % (
            encode(self.payload["session_id"]),
            b",".join(self.parts),
        )


class _Batch:
    """Items on their way into frames that are not too long."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._items: list[Json] = []
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, item: Json) -> None:
        part = encode(item)
        if len(self._items) == _MOST_ITEMS or self._size + len(part) > _MOST_BYTES:
            self.close()
        self._items.append(item)
        self._parts.append(part)
        self._size += len(part)

    def close(self) -> None:
        if items := self._items:
            payload = {"session_id": items[0]["payload"]["session_id"], "events": items}
            self.frames.append(Frame(BATCH, payload, items, self._parts))
            self._items, self._parts, self._size = [], [], 0


def needs_state(dialect: Dialect, entries: Iterable[LogEntry]) -> bool:
    """Whether the session must be looked at to tell of these entries."""
    return dialect == "legacy" or any(entry.kind in _LOOKED_UP for entry in entries)


def raw_frames(entries: Sequence[LogEntry], view: SessionView | None) -> list[Frame]:
    """Batches of items; what clients also hear as an event of its own closes a batch and follows
    it."""
    batch = _Batch()
    for entry in entries:
        item = _told(to_stream_item, entry, view)
        if item is None:
            continue
        batch.add(item)
        if item["type"] in APART:
            batch.close()
            batch.frames.append(
                Frame(item["type"], {**item["payload"], "stream_sequence": entry.seq})
            )
    batch.close()
    return batch.frames


def legacy_frames(entries: Sequence[LogEntry], view: SessionView | None) -> list[Frame]:
    """An event each; words that follow each other are put together, for each patch carries the
    whole turn."""
    frames = []
    for entry in _joined(entries):
        told = _told(to_legacy_event, entry, view)
        if told is not None:
            frames.append(Frame(told[0], {**told[1], "stream_sequence": entry.seq}))
    return frames


RENDERS: dict[Dialect, Render] = {"raw": raw_frames, "legacy": legacy_frames}


def _told(tell: Callable[[LogEntry, Any], Any], entry: LogEntry, view: SessionView | None) -> Any:
    """What is told of an entry; of one that a newer server wrote, nothing."""
    try:
        return tell(entry, view)
    except LogError:
        return None


def _joined(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """The entries, with pieces of one block or of one call's arguments put together under the last
    one's number."""
    last: LogEntry | None = None
    pieces: list[str] = []
    for entry in entries:
        if last is not None and not (entry.kind in STREAMED and _place(entry) == _place(last)):
            yield _with(last, pieces)
            pieces = []
        last = entry
        if entry.kind in STREAMED:
            pieces.append(entry.data.get(_PIECE[entry.kind], ""))
    if last is not None:
        yield _with(last, pieces)


def _place(entry: LogEntry) -> tuple[Any, ...]:
    data = entry.data
    return entry.kind, data.get("turn_id"), data.get("tool_call_id"), data.get("block_index")


def _with(entry: LogEntry, pieces: list[str]) -> LogEntry:
    if len(pieces) < 2:
        return entry
    data = {**entry.data, _PIECE[entry.kind]: "".join(pieces)}
    return LogEntry(entry.session_id, entry.seq, entry.at, entry.kind, data)
