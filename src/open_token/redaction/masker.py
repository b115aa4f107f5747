"""Replace found values with markers, in single values and in whole records.

Only what changes is copied. A string that was changed is searched again until nothing is found:
a marker may remove the text that kept a rule from matching next to it.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Any, cast

import msgspec

from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.jsontools.walk import (
    ID_NAME,
    NAME_END,
    SEARCHED_KEYS,
    collect_named_strings,
    estimate_memory,
    iter_strings,
    prefix_name,
    rewrite_named_strings,
)
from open_token.model.document import Coercion, Conversation, Event, Participant, Record, Redaction
from open_token.redaction.detector import Detector
from open_token.redaction.found_values import FoundValues, ValuePart
from open_token.redaction.marker_factory import (
    MarkerFactory,
    MarkerNumbering,
    build_factory,
    canonicalize_value,
    get_marker_key,
)
from open_token.redaction.markers import blank_markers, find_marker
from open_token.redaction.prefilter import find_surrounding_lines
from open_token.redaction.propagation import (
    MAX_VALUES,
    Occurrence,
    ValueSearch,
    is_propagated,
    list_recurring_values,
)
from open_token.redaction.report import build_redaction
from open_token.redaction.strict_mode import WHOLE_TEXT_RULES, is_masked_whole, mask_whole_text
from open_token.redaction.text_encoding import encode_all, encode_text
from open_token.redaction.traversal import (
    CONTENT_KEYS,
    EVENT_KEYS,
    KeyTreatments,
    collect_strings,
    find_unknown_content,
    find_unknown_members,
    iter_batches,
    iter_metadata,
    unwrap_metadata,
)
from open_token.storage.spool import Spool

_MAX_ROUNDS = 40
# A string of at least this length is searched again only near its markers: within as many lines
# as a match may span, and a few more that a rule looks at.
_LONG_STRING = 2_000
_LINES_AROUND_MARKER = 10
_MAX_REMEMBERED = 1 << 22
_ID_PREFIX = ID_NAME + NAME_END
_SPOOL_SIZE = 8 << 20
_EVENTS_AT_ONCE = 64

Rewriter = Callable[[str, str], str]
"""Return the new text of a string, given the name of its key and its text."""
Marked = list[tuple[str, str]]
"""The type and the value of each marker that was set in a string, in order."""


class Masker:
    """Mask what the rules find and what is known already; count the markers."""

    def __init__(
        self, detector: Detector, found: FoundValues, factory: MarkerFactory, *, strict: bool
    ) -> None:
        self.keys = KeyTreatments(detector.is_odd_key)
        self.strict = strict
        self.marker_counts: Counter[str] = Counter()
        self.distinct: dict[str, set[int]] = {}
        self.has_new_values = False
        """Whether a value was found that must be masked in strings that were passed over before."""
        self._detector = detector
        self._known = found
        self._value_search = ValueSearch(list_recurring_values(found), detector.engine)
        self._factory = factory
        self._masked_keys: dict[str, str] = {}
        # Sessions repeat themselves: the same string with the same findings is rewritten once.
        self._rewrites: dict[tuple[str, tuple[Occurrence, ...]], tuple[str, Marked]] = {}
        self._rewrites_size = 0

    def mask_events(self, events: list[Event]) -> list[Event]:
        """Return the events with everything masked; unchanged events are the same objects."""
        masked = list(events)
        if self.strict:
            # Before the search, which then finds nothing in what is masked as a whole.
            for index, event in enumerate(events):
                if is_masked_whole(event):
                    masked[index] = mask_whole_text(event, self._mask_whole, _to_json_text)
        searched: list[str] = []
        for event in masked:
            collect_strings(event, self.keys, searched, foreign=True)
        found = self._search(searched)
        for _ in range(_MAX_ROUNDS):
            if not found:
                return masked
            changed: list[str] = []
            rewrite = self._build_rewriter(found, changed)
            masked = [self._rewrite_event(event, rewrite) for event in masked]
            found = self._search_near_markers(changed)
        unfinished = next(
            new for new, event in zip(masked, events, strict=True) if new is not event
        )
        raise _did_not_converge(str(unfinished.get("id", "an event without id")))

    def _mask_whole(self, type: str, text: str) -> str | None:
        """Return the marker for a whole text; None where an allow-list or a review permits it."""
        if self._detector.get_allowance(WHOLE_TEXT_RULES[type], text, ""):
            return None
        return self._build_marker(type, text)

    def mask_split_values(
        self, event: Event, parts: Mapping[tuple[str, int], list[ValuePart]] | None
    ) -> Event:
        """Return the event without the parts of values that are split over several strings.

        The first part becomes the marker, the others are removed.
        """
        if not parts:
            return event
        seen: Counter[str] = Counter()

        def rewrite(name: str, text: str) -> str:
            string = prefix_name(name, text)
            seen[string] += 1
            parts_here = parts.get((string, seen[string] - 1))
            return self._remove_parts(encode_text(string), parts_here) if parts_here else text

        return self._rewrite_event(event, rewrite)

    def _remove_parts(self, raw: bytes, parts: list[ValuePart]) -> str:
        pieces = []
        position = raw.find(b"\x01") + 1
        for part in sorted(parts):
            marker = b""
            if part.is_first:
                type_name = self._known.values[part.value].rule.type
                marker = self._build_marker(type_name, part.value).encode()
            if part.start >= position:
                pieces += [raw[position : part.start], marker]
                position = part.end
        pieces.append(raw[position:])
        return b"".join(pieces).decode("utf-8", "surrogatepass")

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value with everything in it masked."""
        searched: list[str] = []
        collect_named_strings(value, self.keys, searched)
        found = self._search(searched)
        for _ in range(_MAX_ROUNDS):
            if not found:
                return value
            changed: list[str] = []
            value = rewrite_named_strings(value, self.keys, self._build_rewriter(found, changed))
            found = self._search_near_markers(changed)
        raise _did_not_converge("the conversation's title or participants")

    def mask_key(self, key: str) -> str:
        """Return a key as masking leaves it; the keys of long lists come again and again."""
        if self.keys[key] not in SEARCHED_KEYS:
            return key
        if key not in self._masked_keys:
            rewrite = self._build_rewriter(self._search([prefix_name("", key)]), [])
            self._masked_keys[key] = rewrite("", key)
        return self._masked_keys[key]

    @property
    def has_recurring_values(self) -> bool:
        """Whether any value is masked wherever else it occurs."""
        return bool(self._value_search)

    def find_recurrences(self, texts: list[str]) -> set[int]:
        """Return the numbers of the strings in which a known value occurs.

        An id that equals a value stays: it links events.
        """
        if not self._value_search:
            return set()
        pieces = encode_all(texts)
        starts = [span.start for span in self._value_search.find(b"\0".join(pieces))]
        if not starts:
            return set()
        ends = list(accumulate(len(piece) + 1 for piece in pieces))
        numbers = {bisect_right(ends, start) for start in starts}
        return {number for number in numbers if not texts[number].startswith(_ID_PREFIX)}

    def _search(self, texts: list[str]) -> dict[str, list[Occurrence]]:
        """Return what is to be masked, by string."""
        found: dict[str, list[Occurrence]] = {}
        if not texts:
            return found
        # One scan of all strings says which have a known value; few do.
        for number in self.find_recurrences(texts):
            text = texts[number]
            found[text] = list(self._value_search.find(blank_markers(encode_text(text))))
        for number, findings in self._detector.find(texts):
            raw = encode_text(texts[number])
            occurrences = found.setdefault(texts[number], [])
            for finding in findings:
                value = finding.get_value(raw)
                self._remember(value, finding.rank, finding.rule)
                for inner_value, rank, rule in finding.within:
                    self._remember(inner_value, rank, rule)
                occurrences.append(Occurrence(finding.start, finding.end, value))
        return found

    def _remember(self, value: str, rank: int, rule: Any) -> None:
        if self._known.add(value, rank, rule) and is_propagated(value, rule):
            self.has_new_values = True

    def _search_near_markers(self, texts: list[str]) -> dict[str, list[Occurrence]]:
        """Search strings that were changed: only near a marker can a rule match that did not."""
        excerpts = [
            (text, excerpt, shift)
            for text in dict.fromkeys(texts)
            for excerpt, shift in _cut_excerpts(text)
        ]
        near = self._search([excerpt for _, excerpt, _ in excerpts])
        found: dict[str, list[Occurrence]] = {}
        for text, excerpt, shift in excerpts:
            for start, end, value in near.get(excerpt, ()):
                found.setdefault(text, []).append(Occurrence(start + shift, end + shift, value))
        return found

    def _rewrite_event(self, event: Event, rewrite: Rewriter) -> Event:
        new: dict[str, Any] = {}
        unknown_members = find_unknown_members(event)
        for key, item in cast(dict[str, Any], event).items():
            if key == "content" and isinstance(item, dict):
                new[key] = self._rewrite_content(item, rewrite)
            elif key == "content":
                new[key] = rewrite_named_strings(item, self.keys, rewrite)
            elif key in unknown_members:
                new[key] = self._rewrite_members(item, unknown_members[key], rewrite)
            elif key in EVENT_KEYS:
                new[key] = item
        if not event.keys() <= EVENT_KEYS:
            unknown = {key: item for key, item in event.items() if key not in EVENT_KEYS}
            new |= rewrite_named_strings(unknown, self.keys, rewrite)
        return event if _is_same(new, event) else cast(Event, new)

    def _rewrite_members(
        self, members: dict[str, Any], unknown: dict[str, Any], rewrite: Rewriter
    ) -> dict[str, Any]:
        new: dict[str, Any] = rewrite_named_strings(unknown, self.keys, rewrite)
        if new is unknown:
            return members
        return {key: item for key, item in members.items() if key not in unknown} | new

    def _rewrite_content(self, content: dict[str, Any], rewrite: Rewriter) -> dict[str, Any]:
        unknown = find_unknown_content(content)
        new = {}
        for key, item in content.items():
            if key in unknown:
                continue
            new[key] = (
                rewrite_named_strings(item, self.keys, rewrite) if key in CONTENT_KEYS else item
            )
        if unknown:
            new |= rewrite_named_strings(unknown, self.keys, rewrite)
        return content if _is_same(new, content) else new

    def _build_rewriter(self, found: dict[str, list[Occurrence]], changed: list[str]) -> Rewriter:
        """Return a function that sets the markers in a string and adds the result to `changed`."""

        def rewrite(name: str, text: str) -> str:
            string = prefix_name(name, text)
            spans = found.get(string)
            if not spans:
                return text
            new = self._set_markers(string, spans)
            if new == text:  # only the name of the key was found
                return text
            changed.append(prefix_name(name, new))
            return new

        return rewrite

    def _set_markers(self, string: str, spans: list[Occurrence]) -> str:
        """Return the text of a string, without its name, with markers for the spans."""
        key = (string, tuple(spans))
        new, marked = self._rewrites.get(key, ("", []))
        if marked and self._are_types_current(marked):
            # Only to count the markers.
            for type_name, value in marked:
                self._build_marker(type_name, value)
            return new
        new, marked = self._join_with_markers(encode_text(string), spans)
        self._rewrites_size += len(string)
        if self._rewrites_size > _MAX_REMEMBERED:
            self._rewrites = {}
            self._rewrites_size = len(string)
        self._rewrites[key] = new, marked
        return new

    def _are_types_current(self, marked: Marked) -> bool:
        """Return whether no value got another type since, from a rule of a lower rank."""
        return all(self._known.values[value].rule.type == type_name for type_name, value in marked)

    def _join_with_markers(self, raw: bytes, spans: list[Occurrence]) -> tuple[str, Marked]:
        parts: list[bytes] = []
        marked: Marked = []
        position = value_start = raw.find(b"\x01") + 1
        spans_of_value = (span for span in spans if span.start >= value_start)
        for start, end, value in merge_occurrences(spans_of_value):
            type_name = self._known.values[value].rule.type
            parts += [raw[position:start], self._build_marker(type_name, value).encode()]
            marked.append((type_name, value))
            position = end
        parts.append(raw[position:])
        return b"".join(parts).decode("utf-8", "surrogatepass"), marked

    def _build_marker(self, type: str, value: str) -> str:
        self.marker_counts[type] += 1
        self.distinct.setdefault(type, set()).add(hash(canonicalize_value(type, value)))
        return self._factory.build_marker(type, value)


def _cut_excerpts(text: str) -> Iterator[tuple[str, int]]:
    """Yield the parts of a string near its markers, and how far their positions are shifted."""
    if len(text) < _LONG_STRING:
        yield text, 0
        return
    raw = encode_text(text)
    value_start = raw.find(b"\x01") + 1
    for start, end in find_lines_near_markers(raw, value_start, _LINES_AROUND_MARKER):
        head = raw[:value_start]
        if value_start and start > value_start:
            # The name of a key says something only about what follows it directly.
            head += b"\n"
        yield (head + raw[start:end]).decode("utf-8", "surrogatepass"), start - len(head)


def find_lines_near_markers(text: bytes, begin: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text, from `begin` on, of lines with markers and `count` lines around."""
    start, end, position = begin, -1, begin
    while position >= 0 and (marker := find_marker(text, position)):
        first, last = find_surrounding_lines(text, marker.start(), count, begin, len(text))
        if first > end:
            if end >= 0:
                yield start, end
            start = first
        end = last
        position = text.find(b"\n", marker.end())
    if end >= 0:
        yield start, end


def _did_not_converge(where: str) -> OpenTokenError:
    return OpenTokenError(
        "redaction did not converge",
        where=where,
        help="nothing was written; please report how to create such an event, without its content",
        code="redaction.unfinished",
    )


def _to_json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _is_same(new: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether nothing was masked, whatever the order of the keys is."""
    return all(key in before and item is before[key] for key, item in new.items())


def merge_occurrences(spans: Iterable[Occurrence]) -> list[Occurrence]:
    """Return spans that do not overlap; those that did get the value of the longest."""
    merged: list[Occurrence] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        size = span.end - span.start
        if not merged or span.start >= merged[-1].end:
            merged.append(span)
            longest = size
        else:
            last = merged[-1]
            value = span.value if size > longest else last.value
            merged[-1] = Occurrence(last.start, max(last.end, span.end), value)
            longest = max(longest, size)
    return merged


@dataclass(frozen=True)
class MaskedEvents:
    """Events of which some have a masked form; can be iterated any number of times."""

    events: Iterable[Event]
    positions: "array[int]"
    masked: Spool

    def __iter__(self) -> Iterator[Event]:
        positions = iter(self.positions)
        masked = iter(self.masked)
        next_position = next(positions, -1)
        for position, event in enumerate(self.events):
            if position == next_position:
                yield next(masked)
                next_position = next(positions, -1)
            else:
                yield event


def mask_record(
    record: Record,
    context: Context,
    level: str,
    detector: Detector,
    found: FoundValues,
    factory: MarkerFactory | None = None,
) -> Record:
    """Return the record with everything masked and `conversation.redaction` updated.

    Masking may find further values; then it starts over, so that they are masked everywhere.
    """
    numbering = MarkerNumbering()
    if get_marker_key(context) is None:
        # Markers of an earlier redaction keep their numbers.
        _reserve_numbers(record, numbering)
    scope = record.conversation.get("id", "")
    while True:
        masker = Masker(
            detector,
            found,
            factory or build_factory(context, scope, numbering),
            strict=level == "strict",
        )
        metadata = [_mask_metadata(masker, *item) for item in iter_metadata(record)]
        coercions = [_mask_pointer(masker, item) for item in record.coercions]
        events = _mask_events(record, found, masker)
        if not masker.has_new_values:
            break
    conversation = cast(Conversation, metadata[0])
    redaction = _build_account(conversation, context, level, masker, found)
    if redaction is not None:
        conversation = {**conversation, "redaction": redaction}
    return replace(
        record,
        conversation=conversation,
        participants=cast(list[Participant], metadata[1:]),
        coercions=coercions,
        events=events,
    )


def _reserve_numbers(record: Record, numbering: MarkerNumbering) -> None:
    for text in iter_strings([record.conversation, record.participants]):
        numbering.reserve_numbers(text)
    for batch in iter_batches(record.events, KeyTreatments(), foreign=record.is_export):
        for text in batch.strings:
            numbering.reserve_numbers(text)


def _mask_metadata(
    masker: Masker, holder: dict[str, Any], searched: dict[str, Any]
) -> dict[str, Any]:
    """Return the conversation or a participant with its searched part masked, keys in order."""
    masked = masker.mask_value(searched)
    if masked is searched:
        return holder
    renamed = {
        key: (new_key, unwrap_metadata(key, item))
        for key, (new_key, item) in zip(searched, masked.items(), strict=True)
    }
    return dict(renamed.get(key, (key, item)) for key, item in holder.items())


def _mask_pointer(masker: Masker, item: Coercion) -> Coercion:
    """Return a coercion whose JSON pointer has its keys masked."""
    parts = item["ptr"].split("/")
    keys = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    masked = [masker.mask_key(key).replace("~", "~0").replace("/", "~1") for key in keys]
    if masked == parts:
        return item
    return {**item, "ptr": "/".join(masked)}


def _mask_events(record: Record, found: FoundValues, masker: Masker) -> MaskedEvents:
    result = MaskedEvents(record.events, array("Q"), Spool(_SPOOL_SIZE))
    for first, events, positions in _iter_events_to_mask(record, found, masker):
        chosen = [events[position - first] for position in positions]
        joined = [
            masker.mask_split_values(event, found.split_parts.get(position))
            for event, position in zip(chosen, positions, strict=True)
        ]
        masked = masker.mask_events(joined)
        for position, event, new in zip(positions, chosen, masked, strict=True):
            if new is not event:
                result.positions.append(position)
                result.masked.append(new, estimate_memory(new.get("content")))
    return result


def _iter_events_to_mask(
    record: Record, found: FoundValues, masker: Masker
) -> Iterator[tuple[int, list[Event], list[int]]]:
    """Yield events in batches: the position of the first, and the positions to be masked."""
    # Positions come in ascending order; -1 says that there are no more.
    searched = iter([*found.positions, -1])
    next_position = next(searched)
    for first, events, positions in _iter_recurrences(record, found, masker):
        last = first + len(events)
        while 0 <= next_position < last:
            positions.add(next_position)
            next_position = next(searched)
        positions |= found.split_parts.keys() & range(first, last)
        if masker.strict:
            for position, event in enumerate(events, first):
                if is_masked_whole(event):
                    positions.add(position)
        yield first, events, sorted(positions)


def _iter_recurrences(
    record: Record, found: FoundValues, masker: Masker
) -> Iterator[tuple[int, list[Event], set[int]]]:
    """Yield events in batches, with the positions of those in which a known value recurs."""
    if masker.has_recurring_values:
        batches = found.batches or iter_batches(
            record.events, masker.keys, foreign=record.is_export
        )
        for batch in batches:
            numbers = masker.find_recurrences(batch.strings)
            yield batch.first, batch.events, set(map(batch.find_position, numbers))
        return
    events = iter(record.events)
    first = 0
    while some := list(islice(events, _EVENTS_AT_ONCE)):
        yield first, some, set()
        first += len(some)


def _build_account(
    conversation: Conversation, context: Context, level: str, masker: Masker, found: FoundValues
) -> Redaction | None:
    strategy = context.options.strategy
    remarks = []
    if get_marker_key(context) is None and strategy != "drop":
        remarks.append("markers are numbered in order of first use: no key could be stored")
    elif strategy == "hash" and context.team_key is None:
        remarks.append("no team key is set: markers match across exports of this user only")
    if len(list_recurring_values(found)) > MAX_VALUES:
        remarks.append(f"recurrences were masked for the first {MAX_VALUES} values only")
    distinct = {name: len(values) for name, values in masker.distinct.items()}
    before = conversation.get("redaction")
    return build_redaction(before, level, strategy, masker.marker_counts, distinct, remarks)
