"""The records of a Gemini CLI file in order, each message once.

The newer form appends a message again whenever it grows. The last version of a message is read, at
the position of its first.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from open_token.jsontools.nesting import encode_deep
from open_token.sources.source import Source, decode_json

# The content of a message except its calls, which have ids and are therefore read once anyway.
_CONTENT_FIELDS = ("content", "displayContent", "thoughts", "tokens")


class Record(NamedTuple):
    """One record, a header, a message or a patch, with its position for notes."""

    position: str
    value: Any


class _LineKey(msgspec.Struct, gc=False):
    """The only fields that the first pass over a file needs."""

    id: Any = None
    rewind: Any = msgspec.field(default=None, name="$rewindTo")


_decode_key = msgspec.json.Decoder(_LineKey).decode


def read_records(source: Source) -> Iterator[Record]:
    """Yield every record; the messages in a document follow their header."""
    for number, value in _read_latest_versions(source):
        yield Record(f"line {number}", value)
        if isinstance(value, dict) and "sessionId" in value:
            messages = value.get("messages")
            if isinstance(messages, list):
                for index, message in enumerate(messages, 1):
                    yield Record(f"message {index}", message)


def _read_latest_versions(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the lines, delaying those that wait for a later version of a message."""
    first_lines, last_lines = _find_rewritten(source)
    queue: deque[tuple[int, Any]] = deque()
    latest: dict[int, Any] = {}
    exported = _ExportedContent()
    for number, value in source.records():
        first = first_lines.get(number)
        if first is None:
            queue.append((number, value))
        elif last_lines[first] == number:
            latest[first] = value
        # Yield what waits for no later version; the order of the file is preserved.
        while queue and (queue[0][0] not in last_lines or queue[0][0] in latest):
            line, original = queue.popleft()
            version = latest.pop(line, original)
            if source.grows:
                version = exported.remove_known(version)
                if version is None:
                    continue
            yield line, version
    yield from queue


class _ExportedContent:
    """What was read of a growing file before: of a later version only the new parts are read."""

    def __init__(self) -> None:
        self._digests: dict[str, set[bytes]] = {}
        """The parts of each message, in the order of the messages."""

    def remove_known(self, value: Any) -> Any:
        """Return a record without parts that an earlier version had; None if nothing is left."""
        if not isinstance(value, dict):
            return value
        target = value.get("$rewindTo")
        if isinstance(target, str):
            self._forget_from(target)
        message_id = value.get("id")
        if not isinstance(message_id, str):
            return value
        # A message is written again, with the same id, each time that one of its calls ends.
        is_first = message_id not in self._digests
        known = self._digests.setdefault(message_id, set())
        has_new = False
        shortened: dict[str, list[Any]] = {}
        seen: list[bytes] = []
        for field in _CONTENT_FIELDS:
            if field not in value:
                continue
            parts = _to_list(value[field])
            digests = [_digest(part) for part in parts]
            seen += digests
            new = [part for part, key in zip(parts, digests, strict=True) if key not in known]
            has_new = has_new or bool(new)
            if len(new) < len(parts):
                shortened[field] = new
        known.update(seen)
        if is_first:
            return value
        if has_new or value.get("toolCalls"):
            return {**value, **shortened}
        return None

    def _forget_from(self, target: str) -> None:
        """Forget the messages that a rewind took back: they may come again."""
        ids = list(self._digests)
        start = ids.index(target) if target in self._digests else 0
        for message_id in ids[start:]:
            del self._digests[message_id]


def _to_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _digest(part: Any) -> bytes:
    return hashlib.blake2b(encode_deep(part).encode(), digest_size=16).digest()


def _find_rewritten(source: Source) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first line for each line that repeats a message, and the last for each first."""
    active: dict[str, int] = {}
    first_lines: dict[int, int] = {}
    last_lines: dict[int, int] = {}
    for number, key in source.records(_decode_line_key, is_preview=True):
        if isinstance(key, dict):
            key = _LineKey(key.get("id"), key.get("$rewindTo"))
        if not isinstance(key, _LineKey):
            continue
        if isinstance(key.rewind, str):
            _rewind(active, key.rewind)
        elif isinstance(key.id, str):
            first = active.setdefault(key.id, number)
            if first != number:
                first_lines[number] = first
                last_lines[first] = number
    return first_lines, last_lines


def _rewind(active: dict[str, int], target: str) -> None:
    """End the messages from a target on, or all if it names none of them."""
    start = active.get(target, 0)
    while active:
        message_id, line = active.popitem()
        if line < start:
            active[message_id] = line
            return


def _decode_line_key(raw: bytes) -> Any:
    try:
        return _decode_key(raw)
    except msgspec.ValidationError:
        return decode_json(raw)
