"""Choose the strings of a conversation that are searched, and collect them in batches.

Keys of structured data decide: ids, signatures and binary data must stay as they are. Events are
batched so that a small one costs little.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from open_token.jsontools.walk import (
    FILE_BYTES,
    ID_VALUE,
    SEARCH_KEY,
    SEARCH_KEY_OF_ID,
    SEARCH_VALUE,
    SKIP_VALUE,
    collect_named_strings,
)
from open_token.model.document import MIMES, Event, Links, Record, Usage
from open_token.redaction.lazy_patterns import lazy_compile

BATCH_SIZE = 1 << 18
EVENT_KEYS = frozenset(
    ("id", "seq", "ts", "type", "actor_id", "visibility", "role", "content", "links", "usage")
)
CONTENT_KEYS = ("text", "data")
_ALL_CONTENT_KEYS = frozenset((*CONTENT_KEYS, "mime"))
_LARGE_EVENT = 1 << 20
_MEMBER_KEYS = {
    "links": frozenset(Links.__annotations__),
    "usage": frozenset(Usage.__annotations__),
}
_KEPT_OF_CONVERSATION = frozenset(("id", "started_at", "internal_availability"))
_KEPT_OF_PARTICIPANT = frozenset(("actor_id", "kind", "instance_id"))
_NAMES = frozenset(("timezone", "source_runtime", "provider", "model"))
"""Metadata that names something: treated as ids are, masked only if it is a token or an address."""
_JSON_STARTS = ("", "{", "[")

_OPAQUE_KEY = lazy_compile(
    r"(?:thinking_?|thought_?)?signature|encrypted_?(?:content|data|reasoning|thinking)?"
    r"|base64|sha-?(?:1|256|384|512)|integrity"
)
_ID_KEY = lazy_compile(
    r"(?:.*[_-])?(?:u?uid|id|ids|uuids?)|.*[a-z0-9](?:Id|Ids|ID|IDs|Uuid|UUID|Uid)", re.DOTALL
)
_SECRET_ID = lazy_compile("key|token|secret|pass|credential|access", re.IGNORECASE)
_PLAIN_KEY = lazy_compile(r"[A-Za-z_$@][A-Za-z_$-]{0,23}|[A-Za-z_][A-Za-z0-9_$-]{0,15}")
_CALL_IDS = frozenset(
    ("native_call_id", "call_id", "tool_use_id", "tool_call_id", "toolCallId", "tool_use_ids")
)
_MAX_KEYS = 10_000
_WITH_KEY = {SEARCH_VALUE: SEARCH_KEY, ID_VALUE: SEARCH_KEY_OF_ID}
"""The treatment that searches the key as well: any text may end like the name of an id."""


class KeyTreatments(dict[str, int]):
    """How the string under each key is treated, computed once a key.

    `is_odd` names keys that look plain and are searched all the same.
    """

    def __init__(self, is_odd: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self._is_odd = is_odd

    def __missing__(self, key: str) -> int:
        if len(self) >= _MAX_KEYS:
            self.clear()
        treatment = _classify_key(key)
        if treatment in _WITH_KEY and self._is_searched(key):
            treatment = _WITH_KEY[treatment]
        self[key] = treatment
        return treatment

    def _is_searched(self, key: str) -> bool:
        if not _PLAIN_KEY.fullmatch(key):
            return True
        return self._is_odd is not None and self._is_odd(key)


def _classify_key(key: str) -> int:
    if _OPAQUE_KEY.fullmatch(key.lower()) or key in _CALL_IDS:
        return SKIP_VALUE
    if _ID_KEY.fullmatch(key) and not _SECRET_ID.search(key):
        return ID_VALUE
    if key == "data":
        return FILE_BYTES
    return SEARCH_VALUE


class Batch(NamedTuple):
    """Consecutive events, their strings, and where the strings of each event begin."""

    first: int
    events: list[Event]
    starts: list[int]
    strings: list[str]

    def find_position(self, number: int) -> int:
        """Return the position, among all events, of the one that a string belongs to."""
        return self.first + bisect_right(self.starts, number) - 1


def iter_batches(
    events: Iterable[Event], keys: Mapping[str, int], *, foreign: bool
) -> Iterator[Batch]:
    """Yield all events in batches; of foreign events also strings under keys the format lacks."""
    batch = Batch(0, [], [], [])
    size = 0
    for event in events:
        begin = len(batch.strings)
        batch.events.append(event)
        batch.starts.append(begin)
        added = collect_strings(event, keys, batch.strings, foreign=foreign)
        size += added
        if size < BATCH_SIZE:
            continue
        if added > _LARGE_EVENT and begin:
            front, batch = _split_off_last(batch, begin)
            yield front
        yield batch
        batch = Batch(batch.first + len(batch.events), [], [], [])
        size = 0
    if batch.events:
        yield batch


def collect_strings(
    event: Event,
    keys: Mapping[str, int],
    texts: list[str],
    *,
    foreign: bool = False,
) -> int:
    """Append the strings of an event to `texts`; return how long they are together."""
    begin = len(texts)
    content: Any = event.get("content")
    if foreign or type(content) is not dict:
        _collect_foreign(cast(dict[str, Any], event), content, keys, texts)
        return sum(map(len, texts[begin:]))
    text = content.get("text")
    if text is None:
        collect_named_strings(content.get("data"), keys, texts)
    elif len(content) == 2 and text[:1] not in _JSON_STARTS and "\x01" not in text:
        # Most events: a text and a MIME type, nothing nested.
        texts.append(text)
        return len(text)
    else:
        collect_named_strings(text, keys, texts)
        collect_named_strings(content.get("data"), keys, texts)
    return sum(map(len, texts[begin:]))


def iter_metadata(record: Record) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the conversation and the participants, each with the part of it that is searched."""
    for holder in (record.conversation, *record.participants):
        kept = _KEPT_OF_CONVERSATION if holder is record.conversation else _KEPT_OF_PARTICIPANT
        items = cast(dict[str, Any], holder)
        searched = {}
        if isinstance(items, dict):
            for key, item in items.items():
                if key not in kept:
                    searched[key] = {"id": item} if key in _NAMES else item
        yield items, searched


def unwrap_metadata(key: str, item: Any) -> Any:
    """Return an item of a searched part as the metadata has it."""
    return item["id"] if key in _NAMES else item


def _collect_foreign(
    event: dict[str, Any], content: Any, keys: Mapping[str, int], texts: list[str]
) -> None:
    if isinstance(content, dict):
        for part in CONTENT_KEYS:
            collect_named_strings(content.get(part), keys, texts)
        if unknown := find_unknown_content(content):
            collect_named_strings(unknown, keys, texts)
    else:
        collect_named_strings(content, keys, texts)
    if not event.keys() <= EVENT_KEYS:
        unknown = {key: item for key, item in event.items() if key not in EVENT_KEYS}
        collect_named_strings(unknown, keys, texts)
    for unknown in find_unknown_members(event).values():
        collect_named_strings(unknown, keys, texts)


def find_unknown_members(event: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what `links` and `usage` hold that the format does not define, by these two keys."""
    unknown = {}
    for key, defined in _MEMBER_KEYS.items():
        members = event.get(key)
        if isinstance(members, dict) and not members.keys() <= defined:
            unknown[key] = {name: item for name, item in members.items() if name not in defined}
    return unknown


def find_unknown_content(content: dict[str, Any]) -> dict[str, Any]:
    """Return what content holds that the format does not define: other keys, other MIME types."""
    if content.keys() <= _ALL_CONTENT_KEYS and content.get("mime") in MIMES:
        return {}
    return {
        key: item
        for key, item in content.items()
        if key not in CONTENT_KEYS and not (key == "mime" and item in MIMES)
    }


def _split_off_last(batch: Batch, begin: int) -> tuple[Batch, Batch]:
    """Return the last event apart from the rest, so that a very long string is not copied again."""
    front = Batch(batch.first, batch.events[:-1], batch.starts[:-1], batch.strings[:begin])
    last = Batch(batch.first + len(front.events), batch.events[-1:], [0], batch.strings[begin:])
    return front, last
