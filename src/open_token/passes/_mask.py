"""Puts marks where something was found, copying only what changes, until a further look finds
nothing."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, cast

import msgspec

from open_token.errors import OpenTokenError
from open_token.jsontools.walk import (
    ID_NAME,
    NAME_END,
    SEARCH_KEY,
    collect_named_strings,
    prefix_name,
    rewrite_named_strings,
)
from open_token.model import Event
from open_token.passes._batches import OWN_KEYS, OWN_PARTS, gather, strange_parts, strange_within
from open_token.passes._detect import Detector
from open_token.passes._found import Cut, Found
from open_token.passes._keys import Keys
from open_token.passes._letters import all_encoded, encoded
from open_token.passes._marker import Marker, canonical
from open_token.passes._marks import near_marks, without_marks
from open_token.passes._spread import Occurrence, Spread, is_sought, recurring
from open_token.passes._strict import WHOLE, hidden, is_hidden

_MOST_ROUNDS = 40
# A string of at least this length is looked through again only near its marks: so many lines may a
# match run over,
# and so many more does a rule look at.
_LONG, _LINES = 2_000, 10
_MOST_REMEMBERED = 1 << 22
_AN_ID = ID_NAME + NAME_END
Change = Callable[[str, str], str]


class Masker:
    """Masks what the rules find and what is known already, and counts the marks it sets."""

    def __init__(self, detector: Detector, found: Found, marker: Marker, *, strict: bool) -> None:
        self.keys = Keys(detector.is_odd_key)
        self.strict = strict
        self.marks: Counter[str] = Counter()
        self.distinct: dict[str, set[int]] = {}
        self.grew = False
        self._detector = detector
        self._known = found
        self._spread = Spread(recurring(found), detector.engine)
        self._marker = marker
        self._masked_keys: dict[str, str] = {}
        self._rewrites: dict[
            tuple[str, tuple[Occurrence, ...]], tuple[str, list[tuple[str, str]]]
        ] = {}
        self._rewritten_size = 0

    def events(self, events: list[Event]) -> list[Event]:
        """The events with everything masked; a string that changes is looked through again until
        nothing is found."""
        masked = list(events)
        if self.strict:
            masked = [
                hidden(event, self._hide, _as_text) if is_hidden(event) else event
                for event in events
            ]
        leaves: list[str] = []
        for event in masked:
            gather(event, self.keys, leaves, foreign=True, eager=True)
        found = self._found(leaves)
        for _ in range(_MOST_ROUNDS):
            if not found:
                return masked
            leaves = []
            masked = [self._rewritten(event, found, leaves) for event in masked]
            found = self._found_again(leaves)
        changed = next(new for new, event in zip(masked, events, strict=True) if new is not event)
        raise _unfinished(str(changed.get("id", "an event without id")))

    def _hide(self, type: str, text: str) -> str | None:
        """The mark for all that somebody said; None where an allow-list or a review lets it
        stay."""
        return None if self._detector.allowance(WHOLE[type], text, "") else self._mark(type, text)

    def without_pieces(
        self, event: Event, cuts: Mapping[tuple[str, int], list[Cut]] | None
    ) -> Event:
        """The event without the pieces of values that lie over several strings; the first piece
        becomes the mark."""
        if not cuts:
            return event
        met: Counter[str] = Counter()

        def change(name: str, text: str) -> str:
            leaf = prefix_name(name, text)
            met[leaf] += 1
            pieces = cuts.get((leaf, met[leaf] - 1))
            return self._without(encoded(leaf), pieces) if pieces else text

        return self._rewritten_by(event, change)

    def _without(self, raw: bytes, cuts: list[Cut]) -> str:
        parts, place = [], raw.find(b"\x01") + 1
        for cut in sorted(cuts):
            mark = (
                self._mark(self._known.values[cut.value].rule.type, cut.value).encode()
                if cut.is_first
                else b""
            )
            if cut.start >= place:
                parts += [raw[place : cut.start], mark]
                place = cut.end
        return b"".join([*parts, raw[place:]]).decode("utf-8", "surrogatepass")

    def value(self, value: Any) -> Any:
        """A value with everything in it masked."""
        leaves: list[str] = []
        collect_named_strings(value, self.keys, leaves, eager=True)
        found = self._found(leaves)
        for _ in range(_MOST_ROUNDS):
            if not found:
                return value
            leaves = []
            value = rewrite_named_strings(value, self.keys, self._change(found, leaves))
            found = self._found_again(leaves)
        raise _unfinished("the conversation's title or participants")

    def key(self, key: str) -> str:
        """A key as it stands after masking; the keys of long lists come again and again."""
        if self.keys[key] != SEARCH_KEY:
            return key
        if key not in self._masked_keys:
            self._masked_keys[key] = self._change(self._found([prefix_name("", key)]), [])("", key)
        return self._masked_keys[key]

    @property
    def looks_for_echoes(self) -> bool:
        """Whether any value is masked wherever else it stands."""
        return bool(self._spread)

    def echoes(self, leaves: list[str]) -> set[int]:
        """The numbers of the strings in which a known value stands; an id that equals one stays
        what links it."""
        if not self._spread:
            return set()
        pieces = all_encoded(leaves)
        starts = [span.start for span in self._spread.find(b"\0".join(pieces))]
        if not starts:
            return set()
        ends = list(accumulate(len(piece) + 1 for piece in pieces))
        numbers = {bisect_right(ends, start) for start in starts}
        return {number for number in numbers if not leaves[number].startswith(_AN_ID)}

    def _found(self, leaves: list[str]) -> dict[str, list[Occurrence]]:
        """What is to be masked, by string."""
        found: dict[str, list[Occurrence]] = {}
        if not leaves:
            return found
        for number in self.echoes(leaves):
            found[leaves[number]] = list(self._spread.find(without_marks(encoded(leaves[number]))))
        for number, findings in self._detector.find(leaves):
            raw = encoded(leaves[number])
            for item in findings:
                value = item.plain or raw[item.start : item.end].decode("utf-8", "surrogatepass")
                for known, rank, rule in ((value, item.rank, item.rule), *item.within):
                    self.grew |= self._known.add(known, rank, rule) and is_sought(known, rule)
                found.setdefault(leaves[number], []).append(Occurrence(item.start, item.end, value))
        return found

    def _found_again(self, leaves: list[str]) -> dict[str, list[Occurrence]]:
        """What is to be masked in strings that changed: only near a mark can anything have come to
        light."""
        pieces = [
            (leaf, *piece) for leaf in dict.fromkeys(leaves) for piece in _changed_pieces(leaf)
        ]
        near = self._found([piece for _, piece, _ in pieces])
        found: dict[str, list[Occurrence]] = {}
        for leaf, piece, shift in pieces:
            for start, end, value in near.get(piece, ()):
                found.setdefault(leaf, []).append(Occurrence(start + shift, end + shift, value))
        return found

    def _rewritten(
        self, event: Event, found: dict[str, list[Occurrence]], changed: list[str]
    ) -> Event:
        return self._rewritten_by(event, self._change(found, changed))

    def _rewritten_by(self, event: Event, change: Change) -> Event:
        new: dict[str, Any] = {}
        within = strange_within(event)
        for key, item in cast(dict[str, Any], event).items():
            if key == "content" and isinstance(item, dict):
                new[key] = self._rewritten_content(item, change)
            elif key == "content":
                new[key] = rewrite_named_strings(item, self.keys, change)
            elif key in within:
                new[key] = self._rewritten_within(item, within[key], change)
            elif key in OWN_KEYS:
                new[key] = item
        if not event.keys() <= OWN_KEYS:
            strange = {key: item for key, item in event.items() if key not in OWN_KEYS}
            new |= rewrite_named_strings(strange, self.keys, change)
        return event if _is_same(new, event) else cast(Event, new)

    def _rewritten_within(
        self, held: dict[str, Any], strange: dict[str, Any], change: Change
    ) -> dict[str, Any]:
        new = rewrite_named_strings(strange, self.keys, change)
        return (
            held
            if new is strange
            else {key: item for key, item in held.items() if key not in strange} | new
        )

    def _rewritten_content(self, content: dict[str, Any], change: Change) -> dict[str, Any]:
        strange = strange_parts(content)
        new = {
            key: rewrite_named_strings(item, self.keys, change) if key in OWN_PARTS else item
            for key, item in content.items()
            if key not in strange
        }
        if strange:
            new |= rewrite_named_strings(strange, self.keys, change)
        return content if _is_same(new, content) else new

    def _change(self, found: dict[str, list[Occurrence]], changed: list[str]) -> Change:
        """What replaces in each string what was found in it, and tells the strings that came of
        it."""

        def change(name: str, text: str) -> str:
            leaf = prefix_name(name, text)
            spans = found.get(leaf)
            if not spans:
                return text
            new = self._replaced(leaf, spans)
            if new == text:  # what was found stands in the name alone
                return text
            changed.append(prefix_name(name, new))
            return new

        return change

    def _replaced(self, leaf: str, spans: list[Occurrence]) -> str:
        """The text behind its name with marks for the spans; what a session says again is not put
        together again."""
        key = (leaf, tuple(spans))
        new, marked = self._rewrites.get(key, ("", []))
        if marked and all(self._known.values[value].rule.type == kind for kind, value in marked):
            for kind, value in marked:
                self._mark(kind, value)
            return new
        new, marked = self._put_together(encoded(leaf), spans)
        self._rewritten_size += len(leaf)
        if self._rewritten_size > _MOST_REMEMBERED:
            self._rewrites, self._rewritten_size = {}, len(leaf)
        self._rewrites[key] = new, marked
        return new

    def _put_together(
        self, raw: bytes, spans: list[Occurrence]
    ) -> tuple[str, list[tuple[str, str]]]:
        """Spans that overlap share the mark of the longest; tells also what was marked, as type and
        value."""
        parts, marked = [], []
        place = offset = raw.find(b"\x01") + 1
        for start, end, value in side_by_side(span for span in spans if span.start >= offset):
            kind = self._known.values[value].rule.type
            parts += [raw[place:start], self._mark(kind, value).encode()]
            marked.append((kind, value))
            place = end
        parts.append(raw[place:])
        return b"".join(parts).decode("utf-8", "surrogatepass"), marked

    def _mark(self, type: str, value: str) -> str:
        self.marks[type] += 1
        self.distinct.setdefault(type, set()).add(hash(canonical(type, value)))
        return self._marker.mark(type, value)


def _changed_pieces(leaf: str) -> Iterator[tuple[str, int]]:
    """The pieces of a string that stand near its marks, behind its name, and what their places are
    off by."""
    if len(leaf) < _LONG:
        yield leaf, 0
        return
    raw = encoded(leaf)
    begin = raw.find(b"\x01") + 1
    for start, end in near_marks(raw, begin, _LINES):
        # Only what follows its name at once is told by it.
        head = raw[:begin] + b"\n" if begin and start > begin else raw[:begin]
        yield (head + raw[start:end]).decode("utf-8", "surrogatepass"), start - len(head)


def _unfinished(where: str) -> OpenTokenError:
    return OpenTokenError(
        "redaction does not come to an end",
        where=where,
        help="nothing was written; please report how such an event can be made, without its content",
        code="redaction.unfinished",
    )


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _is_same(new: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether nothing was masked; the order of keys alone is no reason for another object."""
    return all(key in before and item is before[key] for key, item in new.items())


def side_by_side(spans: Iterable[Occurrence]) -> list[Occurrence]:
    """Spans that do not overlap; those that did share the value of the longest."""
    apart: list[Occurrence] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        size = span.end - span.start
        if not apart or span.start >= apart[-1].end:
            apart.append(span)
            longest = size
        else:
            last = apart[-1]
            value = span.value if size > longest else last.value
            apart[-1] = Occurrence(last.start, max(last.end, span.end), value)
            longest = max(longest, size)
    return apart
