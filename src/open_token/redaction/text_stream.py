"""Redact plain text as a stream, in bounded memory.

A window of text is searched at a time; it overlaps the previous one and looks ahead, so that a
value across the border of two windows is found whole.
"""

import codecs
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import cast

from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.jsontools.walk import parse_embedded_json, prefix_name
from open_token.redaction.detector import Detector, build_detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.marker_factory import (
    MarkerFactory,
    MarkerNumbering,
    build_drop_factory,
    build_factory,
)
from open_token.redaction.masker import Masker, merge_occurrences
from open_token.redaction.propagation import Occurrence, ValueSearch, is_propagated
from open_token.redaction.report import build_redaction, stricter_level
from open_token.redaction.text_encoding import encode_text

# A window is the end of the previous piece, a piece, and some text ahead, in bytes.
_PIECE_SIZE = 1 << 18
_LOOK_AHEAD = 1 << 16
_LOOK_BEHIND = 1 << 12
_MAX_LINE_SIZE = 1 << 20
_MAX_BUFFER_SIZE = 8 << 20
_CONTINUATION_BYTES = range(0x80, 0xC0)


def redact_text(
    chunks: Iterable[bytes], context: Context, scope: str, known: FoundValues | None = None
) -> "TextFilter":
    """Return the chunks of a text with markers, to be iterated once.

    An empty chunk says that the text pauses: then all complete lines are returned.
    """
    factory = build_factory(context, f"text|{scope}", MarkerNumbering())
    return TextFilter(chunks, context, factory, known)


def get_text_level(context: Context) -> str | None:
    """Return the level of redaction; None when nothing is to be masked."""
    level = stricter_level(context.options.redact, context.policy.min_redact)
    if level == "none" and not context.policy.never_export_private_keys:
        return None
    return level


def mask_texts(texts: list[str], context: Context) -> list[str]:
    """Return some independent texts with markers that say nothing about the values."""
    level = get_text_level(context)
    if level is None or not any(texts):
        return texts
    detector = build_detector(level, context)
    masker = Masker(detector, FoundValues(), build_drop_factory(), strict=False)
    return cast(list[str], masker.mask_value(texts))


class TextFilter:
    """Iterate over a text with markers; afterwards `found` and `notes` say what was masked."""

    def __init__(
        self,
        chunks: Iterable[bytes],
        context: Context,
        factory: MarkerFactory,
        known: FoundValues | None = None,
    ) -> None:
        self._chunks = chunks
        self._options = context.options
        self.level = get_text_level(context)
        self.found = known or FoundValues()
        self._previous = b""
        """The end of the text before the buffer, which rules may look at."""
        self._buffer = b""
        self._wanted_size = _PIECE_SIZE + _LOOK_AHEAD
        if self.level is not None:
            detector = build_detector(self.level, context)
            self._masker = _TextMasker(detector, self.found, factory)

    def __iter__(self) -> Iterator[bytes]:
        if self.level is None:
            yield from self._chunks
            return
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        for chunk in self._chunks:
            if not chunk:  # the text pauses
                yield _encode_output(self._mask_complete_lines())
            self._buffer += encode_text(decoder.decode(chunk))
            while len(self._buffer) >= self._wanted_size:
                yield _encode_output(self._mask_piece(is_last=False))
        self._buffer += encode_text(decoder.decode(b"", True))
        while self._buffer:
            yield _encode_output(self._mask_piece(is_last=True))

    @property
    def notes(self) -> list[str]:
        """How many values of which types were masked."""
        if self.level is None:
            return []
        masker = self._masker
        distinct = {name: len(values) for name, values in masker.distinct.items()}
        redaction = build_redaction(
            None, self.level, self._options.strategy, masker.marker_counts, distinct, []
        )
        return redaction["notes"] if redaction else []

    def _mask_piece(self, *, is_last: bool) -> str:
        """Return the next piece, masked; nothing if more text is needed to see where it ends."""
        window = self._previous + self._buffer
        base = len(self._previous)
        spans = self._masker.find_spans(window)
        cut = len(window) if is_last else self._find_cut(window, base, spans)
        if cut <= base:
            self._wanted_size = len(self._buffer) + _PIECE_SIZE
            if self._wanted_size > _MAX_BUFFER_SIZE:
                raise _too_long_error()
            return ""
        return self._mask_up_to(cut, window, base, spans)

    def _mask_complete_lines(self) -> str:
        """Return the complete lines, masked, up to a finding at their end that may go on."""
        window = self._previous + self._buffer
        base = len(self._previous)
        cut = window.rfind(b"\n") + 1
        last_line = window.rfind(b"\n", base, cut - 1) + 1 or base
        # A key that has only begun is not found yet.
        if cut > base and window.startswith(b"-----BEGIN", last_line):
            cut = last_line
        if cut <= base:
            return ""
        spans = self._masker.find_spans(window)
        for span in spans:
            is_multiline = b"\n" in window[span.start : span.end]
            ends_here = is_multiline and not window[span.end : cut].strip()
            if span.start < cut and (span.end > cut or ends_here):
                cut = max(base, span.start)
        return self._mask_up_to(cut, window, base, spans) if cut > base else ""

    def _mask_up_to(self, cut: int, window: bytes, base: int, spans: list[Occurrence]) -> str:
        self._wanted_size = _PIECE_SIZE + _LOOK_AHEAD
        masked = self._masker.mask_window(window, base, cut, spans)
        self._previous = window[_find_character(window, max(0, cut - _LOOK_BEHIND)) : cut]
        self._buffer = window[cut:]
        return masked

    def _find_cut(self, window: bytes, base: int, spans: list[Occurrence]) -> int:
        """Return where the piece ends: after a line or a word, and never inside of a finding."""
        limit = len(window) - _LOOK_AHEAD
        cut = window.rfind(b"\n", base, limit) + 1
        starts_json = window[base : base + 1] in (b"{", b"[")
        if not cut and starts_json and len(window) < _MAX_LINE_SIZE:
            # A line of JSON is masked as structured data, so it must be complete.
            return base
        cut = cut or window.rfind(b" ", base, limit) + 1 or _find_character(window, limit)
        for span in spans:
            if span.start < cut < span.end:
                cut = max(base, span.start)
        return cut


class _TextMasker(Masker):
    """A masker whose known values grow with the text."""

    def __init__(self, detector: Detector, found: FoundValues, factory: MarkerFactory) -> None:
        super().__init__(detector, found, factory, strict=False)
        self._layers = LayeredSearch(detector.engine, self._value_search)
        self._value_search = self._layers  # type: ignore[assignment]
        self._known_count = len(found.values)

    def find_spans(self, window: bytes) -> list[Occurrence]:
        """Return what is to be masked in a text, in bytes, without overlaps."""
        text = window.decode("utf-8", "surrogatepass")
        string = prefix_name("", text)
        spans = self._search([string]).get(string, [])
        # Values that are new may occur before the position where a rule found them.
        if self._add_new_values():
            spans = self._search([string]).get(string, [])
        shift = len(string) - len(text)
        return merge_occurrences(
            Occurrence(start - shift, end - shift, value) for start, end, value in spans
        )

    def _add_new_values(self) -> bool:
        """Search from now on for values that were found for the first time; return if any were."""
        new_values = list(self._known.values.items())[self._known_count :]
        self._known_count = len(self._known.values)
        return self._layers.add(
            [value for value, (_, rule) in new_values if is_propagated(value, rule)]
        )

    def mask_window(self, window: bytes, base: int, cut: int, spans: list[Occurrence]) -> str:
        """Return a part of the window with markers; a line of JSON is masked as structured data."""
        parts = []
        position = base
        for start, end in _find_json_lines(window, base, cut):
            parts.append(self._mask_spans(window, position, start, spans))
            parts.append(self._mask_line(window[start:end].decode("utf-8", "surrogatepass")))
            position = end
        parts.append(self._mask_spans(window, position, cut, spans))
        return "".join(parts)

    def _mask_line(self, line: str) -> str:
        masked = str(self.mask_value(line))
        if self._add_new_values():
            masked = str(self.mask_value(masked))
        return masked

    def _mask_spans(self, window: bytes, start: int, end: int, spans: list[Occurrence]) -> str:
        parts = []
        position = start
        first = bisect_right(spans, start, key=lambda span: span.end)
        for number in range(first, len(spans)):
            span = spans[number]
            if span.start >= end:
                break
            before = window[position : max(position, span.start)]
            parts.append(before.decode("utf-8", "surrogatepass"))
            type_name = self._known.values[span.value].rule.type
            parts.append(self._build_marker(type_name, span.value))
            position = min(span.end, end)
        parts.append(window[position:end].decode("utf-8", "surrogatepass"))
        text = "".join(parts)
        # Next to a new marker a rule may match that did not before.
        return text if len(parts) == 1 else str(self.mask_value(text))


class LayeredSearch:
    """Search for a growing set of values: a few large searches and a small one, so that little
    is compiled again."""

    def __init__(self, engine: str, first: ValueSearch) -> None:
        self._engine = engine
        self._first = first
        self._layers: list[tuple[list[str], ValueSearch]] = []

    def add(self, values: list[str]) -> bool:
        """Add values; return whether there were any."""
        if not values:
            return False
        # Layers grow geometrically, so that each value is compiled a logarithmic number of times.
        while self._layers and len(self._layers[-1][0]) <= 2 * len(values):
            values = self._layers.pop()[0] + values
        self._layers.append((values, ValueSearch(values, self._engine)))
        return True

    def find(self, text: bytes) -> Iterator[Occurrence]:
        """Yield each occurrence of a value."""
        yield from self._first.find(text)
        for _, search in self._layers:
            yield from search.find(text)


def _find_json_lines(window: bytes, base: int, cut: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of lines that hold one JSON object or array each."""
    for start in _find_opened_lines(window, base, cut):
        end = window.find(b"\n", start, cut)
        end = cut if end < 0 else end
        end -= window.endswith(b"\r", start, end)
        is_closed = window.endswith((b"}", b"]"), start, end)
        if (
            is_closed
            and parse_embedded_json(window[start:end].decode("utf-8", "surrogatepass")) is not None
        ):
            yield start, end


def _find_opened_lines(window: bytes, base: int, cut: int) -> Iterator[int]:
    """Yield where lines start that begin with a brace or a bracket."""
    is_line_start = base == 0 or window[base - 1 : base] == b"\n"
    if is_line_start and window.startswith((b"{", b"["), base, cut):
        yield base
    # To search for the newline before them is fast.
    positions = {opening: window.find(opening, base, cut) for opening in (b"\n{", b"\n[")}
    while max(positions.values()) >= 0:
        position, opening = min((at, opening) for opening, at in positions.items() if at >= 0)
        positions[opening] = window.find(opening, position + 1, cut)
        yield position + 1


def _find_character(data: bytes, position: int) -> int:
    """Return the position, or the one before it at which a character begins."""
    while 0 < position < len(data) and data[position] in _CONTINUATION_BYTES:
        position -= 1
    return position


def _encode_output(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _too_long_error() -> OpenTokenError:
    return OpenTokenError(
        f"a value is longer than {_MAX_BUFFER_SIZE >> 20} MiB",
        help="the text cannot be redacted as a stream; the output so far ends before the value",
        code="redaction.endless",
    )
