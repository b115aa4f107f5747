"""Writing of events: ids, content that every JSON parser reads alike, and the way to the spool."""

from collections.abc import Callable
from typing import Any, cast

from open_token.builder.late_edits import LateEdits
from open_token.jsontools.walk import estimate_memory, measure_normalized, normalize_json_values
from open_token.model.document import (
    Coercion,
    Content,
    Event,
    EventType,
    Links,
    Role,
    Usage,
    Visibility,
)
from open_token.storage.spool import Spool

_EVENT_WEIGHT = 900
"""Bytes of memory that an event takes beside its content, for the limit of the spool."""
_BATCH_MASK = 127
"""Events go to the spool in batches of 128."""
_MAX_BATCH_WEIGHT = 1 << 20
_MAX_TOKENS = 2**53 - 1
_NO_TOKENS = dict.fromkeys(Usage.__annotations__, 0)


class EventWriter:
    """Numbers events and hands them to a spool, in the order in which they are added."""

    def __init__(self, *, spool: Spool | None = None) -> None:
        self.first_ts: str | None = None
        self.coercions: list[Coercion] = []
        self.checkpoint: Callable[[], None] | None = None
        """Called with each batch of events; what it raises ends the reading."""
        self.spool = Spool() if spool is None else spool
        self._late_edits = LateEdits(self.spool)
        self._batch: list[Event] = []
        self._weight = 0
        self.count = 0
        """How many events there are; the position (from 0) of the next one."""

    def set_usage(self, event: Event | str, usage: Usage) -> None:
        """Set the usage of an event, which may be given by its id, even if it comes late."""
        complete = _complete_usage(usage) if usage else None
        if complete is None:
            return
        event_id = event if isinstance(event, str) else event["id"]
        place = int(event_id[4:]) - 1
        known = self.spool.get_mutable_event(place) or self._get_batched_event(place)
        if known is not None:
            known["usage"] = complete
        else:
            # The spool has written the event to disk; its usage is added on the way out.
            self._late_edits.usage[event_id] = complete

    def _get_batched_event(self, place: int) -> Event | None:
        place -= len(self.spool)
        return self._batch[place] if 0 <= place < len(self._batch) else None

    def _build_text(self, text: str) -> Content:
        self._weight += text.__sizeof__()
        return {"mime": "text/plain", "text": text}

    def _build_json(self, data: Any) -> Content:
        """Return content of data; values that JSON parsers read differently become text."""
        size = measure_normalized(data)
        if size >= 0:
            self._weight += size
            return {"mime": "application/json", "data": data}
        event_id = f"evt_{self.count + 1:06d}"

        def note_coercion(pointer: str, kind: str) -> None:
            self.coercions.append({"id": event_id, "ptr": f"/content/data{pointer}", "was": kind})

        data = normalize_json_values(data, note_coercion)
        self._weight += estimate_memory(data)
        return {"mime": "application/json", "data": data}

    def _append(self, event: Event) -> None:
        """Add a finished event."""
        self.count += 1
        self._batch.append(event)
        if self.count & _BATCH_MASK == 0 or self._weight > _MAX_BATCH_WEIGHT:
            self._write_batch()

    def flush(self) -> None:
        """Hand over what is held back, for those who follow the spool."""
        if self._batch:
            self._write_batch()

    def _write_batch(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint()
        self.spool.extend(self._batch, self._weight + _EVENT_WEIGHT * len(self._batch))
        self._batch = []
        self._weight = 0

    def _add(
        self,
        type: EventType,
        role: Role | None,
        visibility: Visibility,
        actor: str,
        content: Content,
        ts: str | None,
        call: str | None = None,
        span: str | None = None,
        parent: str | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """Add an event. Every event passes here: the usual kind is built in one expression."""
        self.count += 1
        event_id = f"evt_{self.count:06d}"
        event: Event
        if ts and role:
            event = {
                "id": event_id,
                "seq": 0,
                "ts": ts,
                "type": type,
                "actor_id": actor,
                "visibility": visibility,
                "role": role,
                "content": content,
            }
        else:
            event = build_event(event_id, ts, type, actor, visibility, role, content)
        if self.first_ts is None:
            self.first_ts = ts
        # Links come before usage in every event; exports are compared byte by byte.
        if span or parent:
            event["links"] = build_links(parent, call, span)
        elif call:
            event["links"] = {"call_id": call}
        if usage and (complete := _complete_usage(usage)):
            event["usage"] = complete
        self._batch.append(event)
        if self.count & _BATCH_MASK == 0 or self._weight > _MAX_BATCH_WEIGHT:
            self._write_batch()
        return event


def build_event(
    event_id: str,
    ts: str | None,
    type: EventType,
    actor: str,
    visibility: Visibility,
    role: Role | None,
    content: Content,
) -> Event:
    """Return an event, which may lack a time or a role, with its keys in the usual order."""
    event: Event = {"id": event_id, "seq": 0}
    if ts:
        event["ts"] = ts
    event["type"] = type
    event["actor_id"] = actor
    event["visibility"] = visibility
    if role:
        event["role"] = role
    event["content"] = content
    return event


def _complete_usage(usage: Any) -> Usage | None:
    """Return all counts of the format, 0 where the source has none; None if no count is valid.

    Every usage has the same keys, so that exports of all readers load as one table. Counts that not
    every JSON parser reads exactly are no token counts.
    """
    if max(usage.values()) > _MAX_TOKENS:
        usage = {name: count for name, count in usage.items() if count <= _MAX_TOKENS}
        if not usage:
            return None
    return cast(Usage, {**_NO_TOKENS, **usage})


def build_links(parent: str | None, call: str | None = None, span: str | None = None) -> Links:
    """Return the links of an event."""
    links: Links = {}
    if parent:
        links["parent_id"] = parent
    if call:
        links["call_id"] = call
    if span:
        links["span_id"] = span
    return links
