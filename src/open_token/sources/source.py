"""Opens files, folders, databases, archives and standard input for readers; nothing else opens
input."""

import codecs
import contextlib
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from open_token.errors import InputError
from open_token.jsontools.nesting import measure_depth
from open_token.jsontools.repair import (
    UTF16_MARKS,
    detect_encoding,
    find_syntax_error,
    is_truncated_json,
    parse_with_surrogates,
    split_concatenated,
)
from open_token.sources.origin import Origin

SAMPLE_RECORDS = 64
_TICK = 1 << 20
_DEEPEST = 900
"""Parsers give up at about a thousand levels, some of them with the words that it is no JSON."""

Decode = Callable[[bytes], Any]
decode_json: Decode = msgspec.json.Decoder().decode


class HalfLine(Exception):
    """The last line broke off: the runtime is still writing, or stopped in the middle."""


class Source(Origin):
    """One input: its name for messages, its bytes as lines, records or one document, and its
    neighbours on the disk."""

    def __init__(
        self,
        name: str,
        *,
        path: Path | None = None,
        data: bytes | None = None,
        parent: Origin | None = None,
        is_folder: bool = False,
    ) -> None:
        super().__init__(name, path=path, data=data, parent=parent, is_folder=is_folder)
        self.conversation: str | None = None
        """Which of several conversations in it is meant."""
        self._all: list[tuple[int, Any]] | None = None
        """Every record of a small input that is no longer than its sample: it is parsed once."""
        self._done = 0
        self.progress: Callable[[int], None] | None = None
        self.half_line: int | None = None
        """The number of a half-written last line that was left out."""
        self.repaired: dict[int, None] = {}
        """The numbers of records in which lone surrogates were replaced, in order, each once."""

    @cached_property
    def shape(self) -> str:
        """What it is: empty, binary, text, sqlite, zip, folder, or JSON: lines, document (one
        value), glued, events."""
        if self.is_folder:
            return "folder"
        if self.is_database or self.is_zip:
            return "sqlite" if self.is_database else "zip"
        start = self.head.removeprefix(codecs.BOM_UTF8).lstrip()
        if not start:
            return "empty"
        if start.startswith(UTF16_MARKS):
            return "text"
        if b"\0" in start[:1024]:
            return "binary"
        if re.match(rb"(event|data|id|retry|:)[: ]?[^\n]*\n", start) and b"data:" in start:
            return "events"
        if start[:1] not in b'{["':
            return "text"
        if self._first_line_is_whole():
            return "lines"
        return "glued" if self._glued else "document"

    def _first_line_is_whole(self) -> bool:
        """Whether the first line is a JSON value of its own and more follows (or it is an object a
        line could hold)."""
        with self.opened() as stream:
            first = stream.readline().removeprefix(codecs.BOM_UTF8)
            while first and not first.strip():
                first = stream.readline()
            if first.lstrip()[:1] != b"{":
                return False
            rest = stream.read(1 << 12).strip()
        return first.rstrip()[-1:] == b"}" and rest[:1] in (b"{", b"")

    @cached_property
    def sample(self) -> list[Any]:
        """The first records of a JSON-lines source, or the value itself of a document, for readers
        to look at."""
        if self.shape == "document":
            return [self.document]
        if self.shape == "glued":
            return self._glued[:SAMPLE_RECORDS]
        if self.shape not in ("lines", "events"):
            return []
        found: list[tuple[int, Any]] = []
        with contextlib.suppress(InputError):
            found.extend(islice(self.records(tell=False), SAMPLE_RECORDS))
            if len(found) < SAMPLE_RECORDS and self.size < _TICK and not self.grows:
                self._all = found
        return [record for _, record in found]

    def opening(self, budget: int) -> list[Any]:
        """The records that begin within the first bytes, but for those that do not parse: a look at
        a long file."""
        found = []
        for _, line in self._lines():
            with contextlib.suppress(ValueError, RecursionError):
                found.append(decode_json(line))
            budget -= len(line)
            if budget <= 0:
                break
        return found

    @cached_property
    def document(self) -> Any:
        """The whole input as one JSON value."""
        self.is_read = True
        if isinstance(self._parsed, InputError):
            raise self._parsed
        return self._parsed

    @cached_property
    def _parsed(self) -> Any:
        """The value, or the error that tells why there is none."""
        raw = self.whole
        try:
            return decode_json(raw)
        except (ValueError, RecursionError) as problem:
            if (value := parse_with_surrogates(raw)) is not None:
                self.repaired[1] = None
                return value
            return self._not_json(raw, problem)

    @cached_property
    def _glued(self) -> list[Any]:
        """The values of an input that holds several, whole but not line by line; empty when it does
        not."""
        if not self.is_folder and self.head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (
            b"{",
            b"[",
        ):
            return (
                split_concatenated(self.whole) if isinstance(self._parsed, InputError) else None
            ) or []
        return []

    @cached_property
    def text(self) -> str:
        """The whole input as text; what is no UTF-8 is replaced and noted."""
        self.is_read = True
        raw = self.whole
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as bad:
            self.repaired[raw.count(b"\n", 0, bad.start) + 1] = None
            return raw.decode("utf-8", "replace")

    def records(
        self, decode: Decode = decode_json, *, tell: bool = True
    ) -> Iterator[tuple[int, Any]]:
        """Every record with its line number (or its number in a saved stream); empty lines are
        passed over."""
        if self.shape == "document":
            value = self.document
            return enumerate(value if isinstance(value, list) else [value], 1)
        self.is_read = self.is_read or tell
        if self._all is not None and decode is decode_json:
            return self._again(self._all, tell)
        if self.shape == "glued":
            return enumerate(self._glued, 1)
        if self.shape == "events":
            return self._decoded(self._event_data(), decode)
        return self._line_records(decode, tell)

    def _again(self, known: list[tuple[int, Any]], tell: bool) -> Iterator[tuple[int, Any]]:
        """Records that were parsed before."""
        yield from known
        if tell and self.progress:
            self.progress(self.size)

    def record_at(self, number: int) -> Any:
        """One record by its number; where it lies is found out once for all."""
        self.is_read = True
        if self.shape == "document":
            return self.document[number - 1] if isinstance(self.document, list) else self.document
        if self.shape != "lines":
            return next(record for place, record in self.records() if place == number)
        with self.opened() as stream:
            stream.seek(self._places[number - 1])
            line = stream.readline()
        try:
            return decode_json(line)
        except (ValueError, RecursionError) as problem:
            return self._second_try(
                number, line.removeprefix(codecs.BOM_UTF8), problem, decode_json
            )

    @cached_property
    def _places(self) -> list[int]:
        """Where each line begins, and where the last one ends."""
        with self.opened() as stream:
            return list(accumulate(map(len, stream), initial=0))

    def _line_records(self, decode: Decode, tell: bool) -> Iterator[tuple[int, Any]]:
        """The hot loop: one generator, one look at the clock for many lines."""
        with self.opened() as stream:
            self._done = done = 0
            tell = tell and self.progress is not None
            for number, line in enumerate(stream, 1):
                try:
                    record = decode(line)
                except (ValueError, RecursionError) as problem:
                    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                    if not line.strip():
                        continue
                    try:
                        record = self._second_try(number, line, problem, decode)
                    except HalfLine:
                        return
                yield number, record
                done += len(line)
                if done >= _TICK and tell:
                    self._tell_progress(stream, done)
                    done = 0
            if tell:
                self._tell_progress(stream, done)

    def _tell_progress(self, stream: BinaryIO, done: int) -> None:
        self._done += done
        if self.progress:
            self.progress(getattr(stream, "place", self._done))

    def _decoded(
        self, lines: Iterator[tuple[int, bytes]], decode: Decode
    ) -> Iterator[tuple[int, Any]]:
        for number, line in lines:
            try:
                yield number, decode(line)
            except (ValueError, RecursionError) as problem:
                yield number, self._second_try(number, line, problem, decode)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with self.opened() as stream:
            for number, line in enumerate(stream, 1):
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line

    def _event_data(self) -> Iterator[tuple[int, bytes]]:
        """The data of each server-sent event; `[DONE]` and comments are not records."""
        held: list[bytes] = []
        first = 0
        for number, line in self._lines():
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                first = first or number
                held.append(line[5:].removeprefix(b" "))
            elif not line and held:
                if held != [b"[DONE]"]:
                    yield first, b"\n".join(held)
                held, first = [], 0
        if held and held != [b"[DONE]"]:
            yield first, b"\n".join(held)

    def _second_try(self, number: int, line: bytes, problem: Exception, decode: Decode) -> Any:
        """A record that the fast parser refused: lone surrogates are mended, a half last line is
        left out."""
        if number == 1:
            with contextlib.suppress(ValueError, RecursionError):
                return decode(line)
        if (value := parse_with_surrogates(line)) is not None:
            self.repaired[number] = None
            return value
        if (
            not line.endswith(b"\n")
            and number > 1
            and self.shape == "lines"
            and is_truncated_json(line)
        ):
            self.half_line = number
            raise HalfLine from None
        raise self._not_json(line, problem, number) from None

    def _not_json(self, raw: bytes, problem: Exception, line: int | None = None) -> InputError:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as bad:
            row = (line or 1) + (raw.count(b"\n", 0, bad.start) if line is None else 0)
            column = bad.start - raw.rfind(b"\n", 0, bad.start)
            return InputError(
                "the input is not valid UTF-8",
                where=f"{self.name}:{row}:{column}",
                help=f"repair a copy first, for example: iconv -c -f {detect_encoding(raw)} -t utf-8 FILE > COPY",
                code="input.utf8",
            )
        if isinstance(problem, RecursionError) or measure_depth(raw) > _DEEPEST:
            return InputError(
                "the JSON is nested too deep",
                where=f"{self.name}:{line or 1}",
                help="nothing was exported",
                code="input.deep",
            )
        if line == 1 and self.shape == "text":
            return InputError(
                "this is text, not a conversation this version reads",
                where=self.name,
                help="list what can be read with `open-token formats`",
                code="input.unknown",
            )
        row, column = find_syntax_error(raw if line is None else raw.rstrip())
        row = line if line is not None else row
        return InputError(
            "this line is not JSON" if line else "the input is not JSON",
            where=f"{self.name}:{row}:{column}",
            help="mend or remove that line in a copy; nothing was exported",
            code="input.json",
        )
