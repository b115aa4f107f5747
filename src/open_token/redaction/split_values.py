"""Find values that are split over consecutive strings, as streams split them.

Consecutive strings under the same key are searched as one text.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from open_token.jsontools.walk import ID_NAME, NAME_END
from open_token.model.document import Event
from open_token.redaction.detector import Detector, Finding, has_distinct_prefix
from open_token.redaction.found_values import FoundValues, ValuePart
from open_token.redaction.text_encoding import decode_padded, encode_text
from open_token.redaction.traversal import collect_strings

# Only the ends of a long string can hold a part of a value that goes on in its neighbours.
_END_SIZE = 512
# A text that is one part of another is short.
_MAX_TEXT_SIZE = 400
_MAX_TEXTS = 64
_LIST = ("list",)
_JSON_STARTS = ("", "{", "[")
_STREAM_WORDS = (b"delta", b"chunk", b"partial", b'"candidates"', b"stream")
_TEXT_KEYS = frozenset(("text", "content", "delta", "data", "chunk", "output"))
_IGNORED_KEYS = frozenset(
    ("type", "object", "model", "role", "id", "index", "timestamp", "ts", "kind", "reader", ID_NAME)
)


class StringPosition(NamedTuple):
    """A string of an event: the event's position, the string with its name, and how many equal
    strings of the event come before it."""

    event: int
    string: str
    nth: int


class Segment(NamedTuple):
    """Where a part of a joined text begins, and which string, from which byte on, it is from."""

    start: int
    source: StringPosition
    offset: int


class Stream:
    """Consecutive strings under the same key."""

    def __init__(self, *, is_declared: bool) -> None:
        self.is_declared = is_declared
        """Whether the source itself says that these are parts: then any value may be split, else
        only a token."""
        self._strings: list[tuple[StringPosition, bytes, int]] = []
        self._new_count = 0

    def add(self, source: StringPosition, text: bytes, offset: int) -> None:
        """Append a string; its text begins at an offset, after the name of its key."""
        self._strings.append((source, text, offset))
        self._new_count += 1

    def join(self) -> tuple[bytes, list[Segment]]:
        """Return the text, with a zero byte where the middle of a long string is left out."""
        parts: list[bytes] = []
        segments: list[Segment] = []
        length = 0
        for source, text, offset in self._strings:
            for begin, part in _cut_middle(text):
                segments.append(Segment(length, source, offset + begin))
                parts.append(part)
                length += len(part)
        return b"".join(parts), segments

    def drop_searched(self) -> None:
        """Keep only the end, which the next string may continue."""
        size = 0
        kept = 0
        for _, text, _ in reversed(self._strings):
            if size >= _END_SIZE:
                break
            size += len(text)
            kept += 1
        self._strings = self._strings[-kept:] if kept else []
        self._new_count = 0

    @property
    def needs_search(self) -> bool:
        """Whether there are new strings and more than one in all."""
        return self._new_count > 0 and len(self._strings) > 1


def _cut_middle(text: bytes) -> tuple[tuple[int, bytes], ...]:
    if len(text) <= 2 * _END_SIZE:
        return ((0, text),)
    return (0, text[:_END_SIZE] + b"\0"), (len(text) - _END_SIZE, text[-_END_SIZE:])


class SplitValueSearch:
    """Search all events, in order, for split values."""

    def __init__(self, detector: Detector, keys: Mapping[str, int], found: FoundValues) -> None:
        self._detector = detector
        self._found = found
        self._keys = keys
        self._streams: dict[str, Stream] = {}
        self._source: object = None
        self._texts: list[tuple[int, str]] = []
        """Consecutive texts of one speaker, with their event positions."""
        self._speaker: object = None

    def search_events(self, events: Iterable[Event], first: int) -> None:
        """Search the next events, of which the first has this position."""
        text_streams: list[Stream] = []
        closed: list[Stream] = []
        for position, event in enumerate(events, first):
            content: Any = event.get("content")
            if type(content) is not dict:
                continue
            data = content.get("data")
            if data is not None:  # a tool call or native data
                closed += self._add_data(position, event, data)
                continue
            text = content.get("text")
            if type(text) is not str or not _may_be_part(event, text):
                # Whatever comes next does not continue an earlier text.
                self._speaker = None
                continue
            speaker = (event.get("actor_id"), event.get("type"), event.get("role"))
            if speaker == self._speaker:
                self._texts.append((position, text))
                continue
            if len(self._texts) > 1:
                text_streams.append(_build_text_stream(self._texts))
            self._texts = [(position, text)]
            self._speaker = speaker
        text_streams.append(_build_text_stream(self._texts))
        self._search([*text_streams, *closed, *self._streams.values()])
        self._texts = self._texts[-_MAX_TEXTS:]

    def _add_data(self, position: int, event: Event, data: Any) -> list[Stream]:
        """Add an event with data; return the streams that ended with it."""
        source = _identify_source(data)
        if source is None:
            return []
        ended: list[Stream] = []
        if source != self._source or source is _LIST:
            ended = list(self._streams.values())
            self._streams = {}
        self._source = source
        self._add_strings(position, event, is_declared=source is not _LIST)
        return ended

    def _add_strings(self, position: int, event: Event, *, is_declared: bool) -> None:
        strings: list[str] = []
        collect_strings(event, self._keys, strings, foreign=True)
        seen: Counter[str] = Counter()
        for string in strings:
            name, separator, value = string.partition(NAME_END)
            if not separator:
                name, value = "", string
            elif name in _IGNORED_KEYS:
                continue
            text = encode_text(value)
            offset = len(encode_text(string)) - len(text)
            stream = self._streams.setdefault(name, Stream(is_declared=is_declared))
            stream.add(StringPosition(position, string, seen[string]), text, offset)
            seen[string] += 1

    def _search(self, streams: list[Stream]) -> None:
        streams = [stream for stream in streams if stream.needs_search]
        if not streams:
            return
        joined = [stream.join() for stream in streams]
        for number, findings in self._detector.find([decode_padded(text) for text, _ in joined]):
            text, segments = joined[number]
            is_declared = streams[number].is_declared
            for finding in findings:
                if is_declared or has_distinct_prefix(finding.rule):
                    self._add_parts(finding, text, segments, is_declared=is_declared)
        for stream in streams:
            stream.drop_searched()

    def _add_parts(
        self, finding: Finding, text: bytes, segments: list[Segment], *, is_declared: bool
    ) -> None:
        """Add a value if it spans several strings: the search of each alone cannot find it."""
        starts = [segment.start for segment in segments]
        first = bisect_right(starts, finding.start) - 1
        last = bisect_right(starts, finding.end - 1) - 1
        if segments[first].source == segments[last].source:
            # It lies within one string, in which the ordinary search finds it.
            return
        if not is_declared:
            part = text[finding.start : starts[first + 1]]
            if self._detector.find([decode_padded(part)]):
                # It ends with its string; the next one only looks like a continuation.
                return
        value = finding.plain or decode_padded(text[finding.start : finding.end])
        for number in range(first, last + 1):
            begin, source, offset = segments[number]
            segment_end = starts[number + 1] if number < last else finding.end
            part_span = ValuePart(
                offset + max(begin, finding.start) - begin,
                offset + min(segment_end, finding.end) - begin,
                value,
                number == first,
            )
            parts_of_event = self._found.split_parts.setdefault(source.event, {})
            parts = parts_of_event.setdefault((source.string, source.nth), [])
            if part_span not in parts:
                parts.append(part_span)
        self._found.add(value, finding.rank, finding.rule)


def _may_be_part(event: Event, text: str) -> bool:
    """Return whether the next text may continue this one; people send whole messages."""
    if len(text) > _MAX_TEXT_SIZE or event.get("role") == "user":
        return False
    return text[:1] not in _JSON_STARTS and NAME_END not in text


def _build_text_stream(texts: list[tuple[int, str]]) -> Stream:
    stream = Stream(is_declared=False)
    for position, text in texts:
        stream.add(StringPosition(position, text, 0), encode_text(text), 0)
    return stream


def _identify_source(data: Any) -> tuple[Any, ...] | None:
    """Return what strings of data continue; None where no value can be split."""
    if type(data) is dict and data.get("kind") == "native":
        raw = msgspec.json.encode(data)
        if any(word in raw for word in _STREAM_WORDS):
            return "native", data.get("reader"), data.get("file")
        return None
    return _LIST if _has_text_list(data) else None


def _has_text_list(data: Any) -> bool:
    """Return whether data is or has a list of strings, or of objects with text under one key."""
    candidates = (data, *data.values()) if type(data) is dict else (data,)
    for item in candidates:
        if type(item) is not list or len(item) < 2:
            continue
        one, other = item[0], item[1]
        if type(one) is str and type(other) is str:
            return True
        if type(one) is dict and type(other) is dict and _TEXT_KEYS & one.keys() & other.keys():
            return True
    return False
