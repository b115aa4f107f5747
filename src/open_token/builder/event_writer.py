"""Where a draft writes its events down: ids, content that every JSON reader takes alike, the way
into the spool."""

from typing import Any, cast

from open_token.builder.late_edits import Spliced
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
from open_token.storage.files import Spool

_EVENT_WEIGHT = 900
_AT_ONCE = 127
_HELD = 1 << 20
_MOST_TOKENS = 2**53 - 1


class Ledger:
    """Events in the order in which they are told, numbered."""

    def __init__(self, *, spool: Spool | None = None) -> None:
        self.first_ts: str | None = None
        self.coercions: list[Coercion] = []
        self.spool = Spool() if spool is None else spool
        self._splice = Spliced(self.spool)
        self._fresh: list[Event] = []
        self._weight = 0
        self.count = 0
        """How many events there are; the place (from 0) of the next one."""

    def set_usage(self, event: Event | str, usage: Usage) -> None:
        """Give an event (or the event of that id) the usage of its message, also when it came
        late."""
        if not (usage := _sound(usage)):
            return
        name = event if isinstance(event, str) else event["id"]
        known = self.spool.open_event(int(name[4:]) - 1) or self._still_fresh(int(name[4:]) - 1)
        if known is not None:
            known["usage"] = usage
        else:
            self._splice.usage[name] = usage

    def _still_fresh(self, place: int) -> Event | None:
        place -= len(self.spool)
        return self._fresh[place] if 0 <= place < len(self._fresh) else None

    def _text(self, text: str) -> Content:
        self._weight += text.__sizeof__()
        return {"mime": "text/plain", "text": text}

    def _json(self, data: Any) -> Content:
        """Content of data, with what no JSON reader agrees on turned into text and noted."""
        size = measure_normalized(data)
        if size >= 0:
            self._weight += size
            return {"mime": "application/json", "data": data}
        next_id = f"evt_{self.count + 1:06d}"

        def found(pointer: str, kind: str) -> None:
            self.coercions.append({"id": next_id, "ptr": f"/content/data{pointer}", "was": kind})

        settled = normalize_json_values(data, found)
        self._weight += estimate_memory(settled)
        return {"mime": "application/json", "data": settled}

    def _take(self, event: Event) -> None:
        """Hand events to the spool, many at a time."""
        self.count += 1
        self._fresh.append(event)
        if self.count & _AT_ONCE == 0 or self._weight > _HELD:
            self._hand_over()

    def flush(self) -> None:
        """Hand over what is held back, for those who follow."""
        if self._fresh:
            self._hand_over()

    def _hand_over(self) -> None:
        self.spool.extend(self._fresh, self._weight + _EVENT_WEIGHT * len(self._fresh))
        self._fresh = []
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
        self.count += 1
        name = f"evt_{self.count:06d}"
        event: Event
        if ts and role:
            event = {
                "id": name,
                "seq": 0,
                "ts": ts,
                "type": type,
                "actor_id": actor,
                "visibility": visibility,
                "role": role,
                "content": content,
            }
        else:
            event = _bare_event(name, ts, type, actor, visibility, role, content)
        if self.first_ts is None:
            self.first_ts = ts
        if span or parent:
            event["links"] = links_of(parent, call, span)
        elif call:
            event["links"] = {"call_id": call}
        if usage and (sound := _sound(usage)):
            event["usage"] = sound
        self._fresh.append(event)
        if self.count & _AT_ONCE == 0 or self._weight > _HELD:
            self._hand_over()
        return event


def _bare_event(
    name: str,
    ts: str | None,
    type: EventType,
    actor: str,
    visibility: Visibility,
    role: Role | None,
    content: Content,
) -> Event:
    """An event that lacks a time or a role, with its keys in the usual order."""
    event: Event = {"id": name, "seq": 0}
    if ts:
        event["ts"] = ts
    event["type"] = type
    event["actor_id"] = actor
    event["visibility"] = visibility
    if role:
        event["role"] = role
    event["content"] = content
    return event


def _sound(usage: Any) -> Usage:
    """The counts that every JSON reader takes alike; a larger one is no number of tokens."""
    sound: Usage = usage
    if usage and max(usage.values()) > _MOST_TOKENS:
        sound = cast(Usage, {name: count for name, count in usage.items() if count <= _MOST_TOKENS})
    return sound


def links_of(parent: str | None, call: str | None = None, span: str | None = None) -> Links:
    links: Links = {}
    if parent:
        links["parent_id"] = parent
    if call:
        links["call_id"] = call
    if span:
        links["span_id"] = span
    return links
