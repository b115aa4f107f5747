"""Values that were cut in pieces, as streams cut them: consecutive strings of one name are searched
as one text."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from open_token.jsontools.walk import ID_NAME, NAME_END
from open_token.model import Event
from open_token.passes._batches import gather
from open_token.passes._detect import Detector, Finding, tells_itself
from open_token.passes._found import Cut, Found
from open_token.passes._letters import decoded, encoded

# Of a long string only the ends can hold a piece of something that began before it or goes on
# behind it.
_END = 512
# A text that is a piece of another is short; of a longer one nobody has cut a token off.
_SHORT = 400
_MOST_PIECES = 64
_LIST = ("list",)
_OPENING = ("", "{", "[")
_STREAM_SIGNS = (b"delta", b"chunk", b"partial", b'"candidates"', b"stream")
_SAID = frozenset(("text", "content", "delta", "data", "chunk", "output"))
_NOT_SAID = frozenset(
    ("type", "object", "model", "role", "id", "index", "timestamp", "ts", "kind", "reader", ID_NAME)
)


class Place(NamedTuple):
    """A string of an event: the event's place, the string behind its name, and how many like it
    stand before it."""

    event: int
    leaf: str
    nth: int


class Stretch(NamedTuple):
    """A part of a joined text, and the bytes of the string that it was taken from."""

    start: int
    place: Place
    offset: int


class Stream:
    """Strings of one name, one behind the other."""

    def __init__(self, *, is_told: bool) -> None:
        self.is_told = is_told
        """The source itself says that these are pieces, so that what is cut may be anything; else
        only a token."""
        self._pieces: list[tuple[Place, bytes, int]] = []
        self._fresh = 0

    def add(self, place: Place, text: bytes, offset: int) -> None:
        self._pieces.append((place, text, offset))
        self._fresh += 1

    def joined(self) -> tuple[bytes, list[Stretch]]:
        """The text, with a zero byte in the place of what is left out of long strings."""
        parts: list[bytes] = []
        stretches: list[Stretch] = []
        length = 0
        for place, text, offset in self._pieces:
            for begin, part in _ends(text):
                stretches.append(Stretch(length, place, offset + begin))
                parts.append(part)
                length += len(part)
        return b"".join(parts), stretches

    def settle(self) -> None:
        """Keep only the end, on which what comes next may follow."""
        size, kept = 0, 0
        for _, text, _ in reversed(self._pieces):
            if size >= _END:
                break
            size, kept = size + len(text), kept + 1
        self._pieces = self._pieces[-kept:] if kept else []
        self._fresh = 0

    @property
    def is_worth_a_look(self) -> bool:
        return self._fresh > 0 and len(self._pieces) > 1


def _ends(text: bytes) -> tuple[tuple[int, bytes], ...]:
    if len(text) <= 2 * _END:
        return ((0, text),)
    return (0, text[:_END] + b"\0"), (len(text) - _END, text[-_END:])


class Pieces:
    """Looks for cut values over all events, in their order."""

    def __init__(self, detector: Detector, keys: Mapping[str, int], found: Found) -> None:
        self._detector = detector
        self._found = found
        self._keys = keys
        self._streams: dict[str, Stream] = {}
        self._source: object = None
        self._run: list[tuple[int, str]] = []
        self._speaker: object = None

    def look(self, events: Iterable[Event], first: int) -> None:
        """Take in events, in their order, and note what is found in pieces."""
        runs: list[list[tuple[int, str]]] = []
        closed: list[Stream] = []
        for place, event in enumerate(events, first):
            content: Any = event.get("content")
            if type(content) is not dict:
                continue
            data = content.get("data")
            if data is not None:
                closed += self._take_data(place, event, data)
                continue
            text = content.get("text")
            if type(text) is not str or not _may_be_a_piece(event, text):
                self._speaker = None
            elif (
                speaker := (event.get("actor_id"), event.get("type"), event.get("role"))
            ) == self._speaker:
                self._run.append((place, text))
            else:
                if len(self._run) > 1:
                    runs.append(self._run)
                self._run, self._speaker = [(place, text)], speaker
        self._search([*map(_as_stream, [*runs, self._run]), *closed, *self._streams.values()])
        self._run = self._run[-_MOST_PIECES:]

    def _take_data(self, place: int, event: Event, data: Any) -> list[Stream]:
        """Take in an event with data; gives the streams that ended with it."""
        source = _source(data)
        if source is None:
            return []
        ended = list(self._streams.values()) if source != self._source or source is _LIST else []
        if ended:
            self._streams = {}
        self._source = source
        self._take(place, event, is_told=source is not _LIST)
        return ended

    def _take(self, place: int, event: Event, *, is_told: bool) -> None:
        leaves: list[str] = []
        gather(event, self._keys, leaves, foreign=True, eager=True)
        met: Counter[str] = Counter()
        for leaf in leaves:
            name, end, value = leaf.partition(NAME_END)
            if end and name in _NOT_SAID:
                continue
            text = encoded(value if end else leaf)
            stream = self._streams.setdefault(name if end else "", Stream(is_told=is_told))
            stream.add(Place(place, leaf, met[leaf]), text, len(encoded(leaf)) - len(text))
            met[leaf] += 1

    def _search(self, streams: list[Stream]) -> None:
        streams = [stream for stream in streams if stream.is_worth_a_look]
        joined = [stream.joined() for stream in streams]
        found = self._detector.find([decoded(text) for text, _ in joined]) if joined else []
        for number, findings in found:
            text, stretches = joined[number]
            for finding in findings:
                if streams[number].is_told or tells_itself(finding.rule):
                    self._cut(finding, text, stretches, is_told=streams[number].is_told)
        for stream in streams:
            stream.settle()

    def _cut(
        self, finding: Finding, text: bytes, stretches: list[Stretch], *, is_told: bool
    ) -> None:
        """A value that lies over several strings, which the search of each by itself cannot see."""
        starts = [stretch.start for stretch in stretches]
        first = bisect_right(starts, finding.start) - 1
        last = bisect_right(starts, finding.end - 1) - 1
        if stretches[first].place == stretches[last].place:
            return
        if not is_told and self._detector.find([decoded(text[finding.start : starts[first + 1]])]):
            return  # it ends with its string, and what stands in the next only looks as if it went on
        value = finding.plain or decoded(text[finding.start : finding.end])
        for number in range(first, last + 1):
            begin, place, offset = stretches[number]
            end = starts[number + 1] if number < last else finding.end
            start = max(begin, finding.start)
            cuts = self._found.cuts.setdefault(place.event, {}).setdefault(
                (place.leaf, place.nth), []
            )
            cut = Cut(
                offset + start - begin,
                offset + min(end, finding.end) - begin,
                value,
                number == first,
            )
            if cut not in cuts:
                cuts.append(cut)
        self._found.add(value, finding.rank, finding.rule)


def _may_be_a_piece(event: Event, text: str) -> bool:
    """Whether a text may go on in the next one; what people send is whole, only machines send
    pieces."""
    return (
        len(text) <= _SHORT
        and text[:1] not in _OPENING
        and NAME_END not in text
        and event.get("role") != "user"
    )


def _as_stream(run: list[tuple[int, str]]) -> Stream:
    stream = Stream(is_told=False)
    for place, text in run:
        stream.add(Place(place, text, 0), encoded(text), 0)
    return stream


def _source(data: Any) -> tuple[Any, ...] | None:
    """What strings in data follow on from; None where nothing can be cut in pieces."""
    if type(data) is dict and data.get("kind") == "native":
        raw = msgspec.json.encode(data)
        return (
            ("native", data.get("reader"), data.get("file"))
            if any(sign in raw for sign in _STREAM_SIGNS)
            else None
        )
    return _LIST if _has_pieces(data) else None


def _has_pieces(data: Any) -> bool:
    """Whether data is or holds a list of strings, or of parts that say something under one key."""
    for item in (data, *data.values()) if type(data) is dict else (data,):
        if type(item) is not list or len(item) < 2:
            continue
        one, other = item[0], item[1]
        if type(one) is str and type(other) is str:
            return True
        if type(one) is dict and type(other) is dict and _SAID & one.keys() & other.keys():
            return True
    return False
