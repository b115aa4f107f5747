"""Redacts plain text as it streams by, in bounded memory: what lies across the border of two pieces
is found whole."""

import codecs
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import cast

from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.jsontools.walk import parse_embedded_json, prefix_name
from open_token.passes._detect import Detector
from open_token.passes._found import Found
from open_token.passes._letters import encoded
from open_token.passes._marker import Marker, Numbers, dropped, keyed
from open_token.passes._mask import Masker, side_by_side
from open_token.passes._notes import redaction_of, stronger
from open_token.passes._screen import detector_for
from open_token.passes._spread import Occurrence, Spread, is_sought

Known = Found
_PIECE = 1 << 18
_AHEAD = 1 << 16
_LEFT = 1 << 12
_LONGEST_LINE = 1 << 20
_MOST = 8 << 20
_CONTINUATION = range(0x80, 0xC0)


def redacted_text(
    chunks: Iterable[bytes], context: Context, scope: str, known: Found | None = None
) -> "TextFilter":
    """The pieces of a text with marks; walk it once. An empty chunk says that the text pauses:
    whole lines come out."""
    return TextFilter(chunks, context, _marker(context, scope), known)


def text_level(context: Context) -> str | None:
    """The level that is searched at; None when nothing is to be masked."""
    level = stronger(context.options.redact, context.policy.min_redact)
    return None if level == "none" and not context.policy.never_export_private_keys else level


def masked(texts: list[str], context: Context) -> list[str]:
    """Some texts, each by itself, with marks that tell nothing of the values."""
    level = text_level(context)
    if level is None or not any(texts):
        return texts
    return cast(
        list[str],
        Masker(detector_for(level, context), Found(), dropped(), strict=False).value(texts),
    )


class TextFilter:
    """A walk over a text that gives it back with marks, and knows afterwards what it masked."""

    def __init__(
        self, chunks: Iterable[bytes], context: Context, marker: Marker, known: Found | None = None
    ) -> None:
        self._chunks = chunks
        self._options = context.options
        self.level = text_level(context)
        self.found = known or Found()
        self._left = b""
        self._buffer = b""
        self._wanted = _PIECE + _AHEAD
        if self.level is not None:
            self._masker = _TextMasker(detector_for(self.level, context), self.found, marker)

    def __iter__(self) -> Iterator[bytes]:
        if self.level is None:
            yield from self._chunks
            return
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        for chunk in self._chunks:
            if not chunk:
                yield _as_it_was(self._at_a_pause())
            self._buffer += encoded(decoder.decode(chunk))
            while len(self._buffer) >= self._wanted:
                yield _as_it_was(self._step(is_last=False))
        self._buffer += encoded(decoder.decode(b"", True))
        while self._buffer:
            yield _as_it_was(self._step(is_last=True))

    @property
    def notes(self) -> list[str]:
        """How many of what were masked."""
        if self.level is None:
            return []
        distinct = {kind: len(values) for kind, values in self._masker.distinct.items()}
        told = redaction_of(
            None, self.level, self._options.strategy, self._masker.marks, distinct, []
        )
        return told["notes"] if told else []

    def _step(self, *, is_last: bool) -> str:
        """The next piece, masked; nothing when more must be read to see where a find or a line
        ends."""
        window, base = self._left + self._buffer, len(self._left)
        spans = self._masker.spans(window)
        cut = len(window) if is_last else self._cut(window, base, spans)
        if cut <= base:
            self._wanted = len(self._buffer) + _PIECE
            if self._wanted > _MOST:
                raise _endless()
            return ""
        return self._put_out(window, base, cut, spans)

    def _at_a_pause(self) -> str:
        """The whole lines that are there, but for a find at their end that may go on."""
        window, base = self._left + self._buffer, len(self._left)
        cut = window.rfind(b"\n") + 1
        last = window.rfind(b"\n", base, cut - 1) + 1 or base
        if cut > base and window.startswith(b"-----BEGIN", last):
            cut = last
        if cut <= base:
            return ""
        spans = self._masker.spans(window)
        for span in spans:
            ends_here = (
                b"\n" in window[span.start : span.end] and not window[span.end : cut].strip()
            )
            if span.start < cut and (span.end > cut or ends_here):
                cut = max(base, span.start)
        return self._put_out(window, base, cut, spans) if cut > base else ""

    def _put_out(self, window: bytes, base: int, cut: int, spans: list[Occurrence]) -> str:
        self._wanted = _PIECE + _AHEAD
        masked = self._masker.masked(window, base, cut, spans)
        self._left = window[_boundary(window, max(0, cut - _LEFT)) : cut]
        self._buffer = window[cut:]
        return masked

    def _cut(self, window: bytes, base: int, spans: list[Occurrence]) -> int:
        """Where the piece ends: behind a line if there is one, else behind a word, and never inside
        a find."""
        limit = len(window) - _AHEAD
        cut = window.rfind(b"\n", base, limit) + 1
        if not cut and window[base : base + 1] in (b"{", b"[") and len(window) < _LONGEST_LINE:
            return base
        cut = cut or window.rfind(b" ", base, limit) + 1 or _boundary(window, limit)
        for span in spans:
            if span.start < cut < span.end:
                cut = max(base, span.start)
        return cut


class _TextMasker(Masker):
    """A masker whose known values grow as the text goes by."""

    def __init__(self, detector: Detector, found: Found, marker: Marker) -> None:
        super().__init__(detector, found, marker, strict=False)
        self._layers = Layers(detector.engine, self._spread)
        self._spread = self._layers  # type: ignore[assignment]
        self._count = len(found.values)

    def spans(self, window: bytes) -> list[Occurrence]:
        """What is to be masked in a text, in bytes of it, side by side."""
        text = window.decode("utf-8", "surrogatepass")
        leaf = prefix_name("", text)
        spans = self._found([leaf]).get(leaf, [])
        if self._learnt():
            spans = self._found([leaf]).get(leaf, [])
        shift = len(leaf) - len(text)
        return side_by_side(
            Occurrence(start - shift, end - shift, value) for start, end, value in spans
        )

    def _learnt(self) -> bool:
        """Let values that were found for the first time be looked for; whether there were any."""
        values = list(self._known.values.items())[self._count :]
        self._count = len(self._known.values)
        return self._layers.add([value for value, (_, rule) in values if is_sought(value, rule)])

    def masked(self, window: bytes, base: int, cut: int, spans: list[Occurrence]) -> str:
        """A part of the window with its marks; a line that is a JSON value is searched as what it
        means."""
        parts, place = [], base
        for start, end in _json_lines(window, base, cut):
            parts.append(self._marked(window, place, start, spans))
            parts.append(self._line(window[start:end].decode("utf-8", "surrogatepass")))
            place = end
        parts.append(self._marked(window, place, cut, spans))
        return "".join(parts)

    def _line(self, line: str) -> str:
        new = str(self.value(line))
        if self._learnt():
            new = str(self.value(new))
        return new

    def _marked(self, window: bytes, start: int, end: int, spans: list[Occurrence]) -> str:
        parts, place = [], start
        for number in range(bisect_right(spans, start, key=lambda span: span.end), len(spans)):
            span = spans[number]
            if span.start >= end:
                break
            parts.append(window[place : max(place, span.start)].decode("utf-8", "surrogatepass"))
            parts.append(self._mark(self._known.values[span.value].rule.type, span.value))
            place = min(span.end, end)
        parts.append(window[place:end].decode("utf-8", "surrogatepass"))
        text = "".join(parts)
        return text if len(parts) == 1 else str(self.value(text))


class Layers:
    """Searches for values of which more come all the time: few large sets and one small, so that
    little is redone."""

    def __init__(self, engine: str, first: Spread) -> None:
        self._engine = engine
        self._first = first
        self._layers: list[tuple[list[str], Spread]] = []

    def add(self, values: list[str]) -> bool:
        """Take more values; whether there were any."""
        if not values:
            return False
        while self._layers and len(self._layers[-1][0]) <= 2 * len(values):
            values = self._layers.pop()[0] + values
        self._layers.append((values, Spread(values, self._engine)))
        return True

    def find(self, text: bytes) -> Iterator[Occurrence]:
        """Each place where one of them stands."""
        yield from self._first.find(text)
        for _, spread in self._layers:
            yield from spread.find(text)


def _marker(context: Context, scope: str) -> Marker:
    options = context.options
    key = (context.team_key or context.key) if options.strategy == "hash" else context.key
    if options.strategy == "drop":
        return dropped()
    if key is None:
        return Numbers().marker()
    return keyed(key, "" if options.strategy == "hash" else f"text|{scope}")


def _json_lines(window: bytes, base: int, cut: int) -> Iterator[tuple[int, int]]:
    """Where lines stand that hold one JSON object or array each."""
    for start in _opened_lines(window, base, cut):
        end = window.find(b"\n", start, cut)
        end = cut if end < 0 else end
        end -= window.endswith(b"\r", start, end)
        is_closed = window.endswith((b"}", b"]"), start, end)
        if (
            is_closed
            and parse_embedded_json(window[start:end].decode("utf-8", "surrogatepass")) is not None
        ):
            yield start, end


def _opened_lines(window: bytes, base: int, cut: int) -> Iterator[int]:
    """Where lines begin that begin with a brace or a bracket; searched for by the newline before,
    which is fast."""
    if window.startswith((b"{", b"["), base, cut) and (
        base == 0 or window[base - 1 : base] == b"\n"
    ):
        yield base
    places = {sign: window.find(sign, base, cut) for sign in (b"\n{", b"\n[")}
    while max(places.values()) >= 0:
        place, sign = min((place, sign) for sign, place in places.items() if place >= 0)
        places[sign] = window.find(sign, place + 1, cut)
        yield place + 1


def _boundary(data: bytes, place: int) -> int:
    """The place, or the one before it at which a letter begins."""
    while 0 < place < len(data) and data[place] in _CONTINUATION:
        place -= 1
    return place


def _as_it_was(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _endless() -> OpenTokenError:
    return OpenTokenError(
        f"one find is longer than {_MOST >> 20} MiB",
        help="the text cannot be redacted in pieces; what came out so far ends before it",
        code="redaction.endless",
    )
