"""Events in batches whose strings are searched together, so that a small event costs little."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from open_token.jsontools.walk import collect_named_strings
from open_token.model import MIMES, Event, Links, Record, Usage

BATCH = 1 << 18
OWN_KEYS = frozenset(
    ("id", "seq", "ts", "type", "actor_id", "visibility", "role", "content", "links", "usage")
)
OWN_PARTS = ("text", "data")
_ALL_PARTS = frozenset((*OWN_PARTS, "mime"))
_LARGE = 1 << 20
_WITHIN = {"links": frozenset(Links.__annotations__), "usage": frozenset(Usage.__annotations__)}
_KEPT_OF_CONVERSATION = frozenset(("id", "started_at", "internal_availability"))
_KEPT_OF_PARTICIPANT = frozenset(("actor_id", "kind", "instance_id"))
_NAMED = frozenset(("timezone", "source_runtime", "provider", "model"))
"""What names something: it stays, unless it is a token or an address itself, as with ids."""
_OPENING = ("", "{", "[")


class Batch(NamedTuple):
    """Consecutive events, their strings, and where each event's strings begin."""

    first: int
    events: list[Event]
    starts: list[int]
    leaves: list[str]

    def place_of(self, leaf: int) -> int:
        """The place, counted over all events, of the one that a string belongs to."""
        return self.first + bisect_right(self.starts, leaf) - 1


def batches(events: Iterable[Event], keys: Mapping[str, int], *, foreign: bool) -> Iterator[Batch]:
    """All events; of foreign ones also the strings under keys that no event of ours has."""
    _, taken, starts, leaves = batch = Batch(0, [], [], [])
    size = 0
    for event in events:
        begin = len(leaves)
        taken.append(event)
        starts.append(begin)
        size += (added := gather(event, keys, leaves, foreign=foreign))
        if size < BATCH:
            continue
        if added > _LARGE and begin:
            front, batch = _split(batch, begin)
            yield front
        yield batch
        _, taken, starts, leaves = batch = Batch(batch.first + len(batch.events), [], [], [])
        size = 0
    if taken:
        yield batch


def gather(
    event: Event,
    keys: Mapping[str, int],
    leaves: list[str],
    *,
    foreign: bool = False,
    eager: bool = False,
) -> int:
    """Add the strings of an event; tells how long they are together."""
    begin = len(leaves)
    content: Any = event.get("content")
    if foreign or type(content) is not dict:
        _gather_foreign(cast(dict[str, Any], event), content, keys, leaves, eager)
        return sum(map(len, leaves[begin:]))
    text = content.get("text")
    if text is None:
        collect_named_strings(content.get("data"), keys, leaves)
    elif len(content) == 2 and text[:1] not in _OPENING and "\x01" not in text:
        leaves.append(text)
        return len(text)
    else:
        collect_named_strings(text, keys, leaves)
        collect_named_strings(content.get("data"), keys, leaves)
    return sum(map(len, leaves[begin:]))


def facts(record: Record) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What stands around the events, the conversation first, each with the part of it that is
    searched."""
    for holder in (record.conversation, *record.participants):
        kept = _KEPT_OF_CONVERSATION if holder is record.conversation else _KEPT_OF_PARTICIPANT
        items = cast(dict[str, Any], holder)
        parts = (
            {key: item for key, item in items.items() if key not in kept}
            if isinstance(items, dict)
            else {}
        )
        yield items, {key: {"id": item} if key in _NAMED else item for key, item in parts.items()}


def fact(key: str, item: Any) -> Any:
    """A part of what stands around the events as it was before it was searched."""
    return item["id"] if key in _NAMED else item


def _gather_foreign(
    event: dict[str, Any], content: Any, keys: Mapping[str, int], leaves: list[str], eager: bool
) -> None:
    if isinstance(content, dict):
        for part in OWN_PARTS:
            collect_named_strings(content.get(part), keys, leaves, eager=eager)
        if strange := strange_parts(content):
            collect_named_strings(strange, keys, leaves, eager=eager)
    else:
        collect_named_strings(content, keys, leaves, eager=eager)
    if not event.keys() <= OWN_KEYS:
        collect_named_strings(
            {key: item for key, item in event.items() if key not in OWN_KEYS},
            keys,
            leaves,
            eager=eager,
        )
    for strange in strange_within(event).values():
        collect_named_strings(strange, keys, leaves, eager=eager)


def strange_within(event: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What links and usage hold that the format does not have there, by these two."""
    found = {}
    for key, own in _WITHIN.items():
        held = event.get(key)
        if isinstance(held, dict) and not held.keys() <= own:
            found[key] = {name: item for name, item in held.items() if name not in own}
    return found


def strange_parts(content: dict[str, Any]) -> dict[str, Any]:
    """What content holds under keys that the format does not have, or for a MIME type that it does
    not have."""
    if content.keys() <= _ALL_PARTS and content.get("mime") in MIMES:
        return {}
    return {
        key: item
        for key, item in content.items()
        if key not in OWN_PARTS and not (key == "mime" and item in MIMES)
    }


def _split(batch: Batch, begin: int) -> tuple[Batch, Batch]:
    """The last event apart from the rest, so that a very long string is not copied once more."""
    front = Batch(batch.first, batch.events[:-1], batch.starts[:-1], batch.leaves[:begin])
    last = Batch(batch.first + len(front.events), batch.events[-1:], [0], batch.leaves[begin:])
    return front, last
