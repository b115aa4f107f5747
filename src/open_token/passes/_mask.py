"""Puts marks where something was found, copying only what changes, until a further look finds nothing."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any, cast

import msgspec

from open_token.errors import OpenTokenError
from open_token.model import Event
from open_token.passes._batches import OWN_KEYS, OWN_PARTS, gather, strange_parts
from open_token.passes._detect import Detector, all_encoded, encoded
from open_token.passes._found import Found
from open_token.passes._keys import Keys
from open_token.passes._marker import Marker, canonical
from open_token.passes._marks import without_marks
from open_token.passes._spread import Occurrence, Spread, recurring
from open_token.passes._strict import hidden, is_hidden
from open_token.passes._values import may_recur
from open_token.walk import ID_NAME, NAME_END, ODD, named, named_strings, rewrite_named

_MOST_ROUNDS = 40
_AN_ID = ID_NAME + NAME_END
Change = Callable[[str, str], str]


class Masker:
    """Masks what the rules find and what is known already, and counts the marks it sets."""

    def __init__(self, detector: Detector, found: Found, marker: Marker, *, strict: bool) -> None:
        self.keys = Keys()
        self.strict = strict
        self.marks: Counter[str] = Counter()
        self.distinct: dict[str, set[int]] = {}
        self.grew = False
        self._detector = detector
        self._known = found
        self._spread = Spread(recurring(found), detector.engine)
        self._marker = marker
        self._masked_keys: dict[str, str] = {}

    def event(self, event: Event) -> Event:
        """The event with everything masked, looked through again after each change; itself if there was nothing."""
        if self.strict and is_hidden(event):
            event = hidden(event, self._mark, _as_text)
        for _ in range(_MOST_ROUNDS):
            leaves: list[str] = []
            gather(event, self.keys, leaves, foreign=True, eager=True)
            found = self._found(leaves)
            new = self._rewritten(event, found) if found else event
            if new is event:
                return event
            event = new
        raise _unfinished(str(event.get("id", "an event without id")))

    def value(self, value: Any) -> Any:
        """A value with everything in it masked."""
        for _ in range(_MOST_ROUNDS):
            leaves: list[str] = []
            named_strings(value, self.keys, leaves, eager=True)
            new = rewrite_named(value, self.keys, self._change(self._found(leaves)))
            if new is value:
                return value
            value = new
        raise _unfinished("the conversation's title or participants")

    def key(self, key: str) -> str:
        """A key as it stands after masking; the keys of long lists come again and again."""
        if self.keys[key] != ODD:
            return key
        if key not in self._masked_keys:
            self._masked_keys[key] = self._change(self._found([named("", key)]))("", key)
        return self._masked_keys[key]

    def echoes(self, leaves: list[str]) -> set[int]:
        """The numbers of the strings in which a known value stands; an id that equals one stays what links it."""
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
                value = raw[item.start : item.end].decode("utf-8", "surrogatepass")
                self.grew |= self._known.add(value, item.rank, item.rule) and item.rule.recurs and may_recur(value)
                found.setdefault(leaves[number], []).append(Occurrence(item.start, item.end, value))
        return found

    def _rewritten(self, event: Event, found: dict[str, list[Occurrence]]) -> Event:
        change = self._change(found)
        new: dict[str, Any] = {}
        for key, item in cast(dict[str, Any], event).items():
            if key == "content" and isinstance(item, dict):
                new[key] = self._rewritten_content(item, change)
            elif key == "content":
                new[key] = rewrite_named(item, self.keys, change)
            elif key in OWN_KEYS:
                new[key] = item
        strange = {key: item for key, item in event.items() if key not in OWN_KEYS}
        new |= rewrite_named(strange, self.keys, change)
        return event if _is_same(new, event) else cast(Event, new)

    def _rewritten_content(self, content: dict[str, Any], change: Change) -> dict[str, Any]:
        strange = strange_parts(content)
        new = {
            key: rewrite_named(item, self.keys, change) if key in OWN_PARTS else item
            for key, item in content.items()
            if key not in strange
        }
        new |= rewrite_named(strange, self.keys, change)
        return content if _is_same(new, content) else new

    def _change(self, found: dict[str, list[Occurrence]]) -> Change:
        def change(name: str, text: str) -> str:
            leaf = named(name, text)
            spans = found.get(leaf)
            return self._replaced(encoded(leaf), spans) if spans else text

        return change

    def _replaced(self, raw: bytes, spans: list[Occurrence]) -> str:
        """The text behind its name with marks for the spans; those that overlap share the mark of the longest."""
        parts = []
        place = offset = raw.find(b"\x01") + 1
        for start, end, value in _side_by_side(span for span in spans if span.start >= offset):
            parts += [raw[place:start], self._mark(self._known.values[value].rule.type, value).encode()]
            place = end
        parts.append(raw[place:])
        return b"".join(parts).decode("utf-8", "surrogatepass")

    def _mark(self, type: str, value: str) -> str:
        self.marks[type] += 1
        self.distinct.setdefault(type, set()).add(hash(canonical(type, value)))
        return self._marker.mark(type, value)


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


def _side_by_side(spans: Iterable[Occurrence]) -> list[Occurrence]:
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
