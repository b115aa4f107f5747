"""Sources: inputs as lines, records or one JSON document. Nothing else opens input."""

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
    find_objects,
    find_syntax_error,
    is_truncated_json,
    is_utf8,
    parse_with_replacement,
    parse_with_surrogates,
    split_concatenated,
)
from open_token.sources.origin import Origin

SAMPLE_RECORDS = 64
_PROGRESS_BYTES = 1 << 20
_MAX_DEPTH = 900
"""Parsers give up at about a thousand levels, some of them as if it were not JSON."""
_MAX_TORN_LINES = 10_000
"""An input with more lines that are not JSON is none of JSON lines."""
_MAX_INSPECTED = 1 << 22
_SSE_LINE = re.compile(rb"(event|data|id|retry|:)[: ]?[^\n]*\n")

Decode = Callable[[bytes], Any]
decode_json: Decode = msgspec.json.Decoder().decode


class IrregularLine(msgspec.Struct, frozen=True):
    """A line that its records alone do not give back: torn, cut off, repaired, or with several."""

    raw: bytes
    records: list[Any]


class Source(Origin):
    """One input for readers: its bytes as lines, records or one document."""

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
        """Which of several conversations in it is to be read."""
        self._all_records: list[tuple[int, Any]] | None = None
        """Every record of an input that is no longer than its sample, so that it is parsed once."""
        self._bytes_read = 0
        self.progress: Callable[[int], None] | None = None
        self.half_line: int | None = None
        """The number of a last line that is cut off and was skipped."""
        self.repaired: dict[int, None] = {}
        """The numbers of records in which text that is not valid Unicode was replaced, in order."""
        self.torn: dict[int, int] = {}
        """The numbers of lines that are not JSON, with how many of their bytes could not be read."""
        self.first_fault: InputError | None = None
        """The error for the first line that is not JSON, for formats that must not miss any line."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the input anew; what was read of it here is not sent along.
        facts = (self.name, self.path, self._data, self.is_folder, self.conversation)
        return _open_anew, facts

    @cached_property
    def shape(self) -> str:
        """What it is: empty, binary, text, sqlite, zip, folder, or JSON.

        JSON is: lines, document (one value), glued (values without line breaks), events (SSE).
        """
        if self.is_folder:
            return "folder"
        if self.is_database:
            return "sqlite"
        if self.is_zip:
            return "zip"
        start = self.head.removeprefix(codecs.BOM_UTF8).lstrip()
        if not start:
            return "empty"
        if start.startswith(UTF16_MARKS):
            return "text"
        # A crash may leave zero bytes or half a line at the beginning of a log that is whole
        # otherwise, so that neither says that these are no JSON lines.
        if b"\0" in start[:1024]:
            return "lines" if self._has_lines_around_faults() else "binary"
        if _SSE_LINE.match(start) and b"data:" in start:
            return "events"
        if start[:1] not in b'{["':
            return "lines" if self._has_lines_around_faults() else "text"
        # The cheap test comes first: the others parse the whole input.
        if self._has_json_lines():
            return "lines"
        if self._glued_values:
            return "glued"
        is_broken = isinstance(self._parsed_document, InputError)
        if is_broken and self._has_lines_around_faults():
            return "lines"
        return "document"

    def _has_json_lines(self) -> bool:
        """Return whether the first line looks like a whole object, and so does the next."""
        with self.opened() as stream:
            first = stream.readline().removeprefix(codecs.BOM_UTF8)
            while first and not first.strip():
                first = stream.readline()
            if first.lstrip()[:1] != b"{":
                return False
            rest = stream.read(1 << 12).strip()
        return first.rstrip()[-1:] == b"}" and rest[:1] in (b"{", b"")

    def _has_lines_around_faults(self) -> bool:
        """Return whether these are JSON lines of which one of the first is torn.

        Most lines at the beginning must be objects, or the very first one.
        """
        whole = 0
        others = 0
        budget = _MAX_INSPECTED
        with self.opened() as stream:
            while budget > 0 and whole + others < SAMPLE_RECORDS:
                line = stream.readline(budget)
                if not line:
                    break
                budget -= len(line)
                if not line.strip():
                    continue
                value = None
                if line.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{":
                    with contextlib.suppress(ValueError, RecursionError):
                        value = decode_json(line)
                if isinstance(value, dict):
                    # No document over several lines begins with a line that is a whole object.
                    if not others and not whole:
                        return True
                    whole += 1
                else:
                    others += 1
        return whole > others

    @cached_property
    def sample(self) -> list[Any]:
        """The first records of JSON lines, or the value of a document, for format detection."""
        if self.shape == "document":
            return [self.document]
        if self.shape == "glued":
            return self._glued_values[:SAMPLE_RECORDS]
        if self.shape not in ("lines", "events"):
            return []
        records: list[tuple[int, Any]] = []
        with contextlib.suppress(InputError):
            records.extend(islice(self.records(is_preview=True), SAMPLE_RECORDS))
            # Most sessions are short. What detection parsed is then all there is, unless an agent
            # is still writing to the file.
            is_complete = len(records) < SAMPLE_RECORDS and self.size < _PROGRESS_BYTES
            if is_complete and not self.grows:
                self._all_records = records
        return [record for _, record in records]

    def iter_sample(self) -> Iterator[Any]:
        """Yield the records of `sample`; of JSON lines no more is parsed than is asked for."""
        if "sample" in self.__dict__ or self.shape != "lines":
            yield from self.sample
            return
        with contextlib.suppress(InputError):
            for _, record in islice(self.records(is_preview=True), SAMPLE_RECORDS):
                yield record

    def read_opening(self, budget: int) -> list[Any]:
        """Return the records that begin within the first bytes, without those that do not parse."""
        records = []
        for _, line in self._lines():
            with contextlib.suppress(ValueError, RecursionError):
                records.append(decode_json(line))
            budget -= len(line)
            if budget <= 0:
                break
        return records

    @cached_property
    def document(self) -> Any:
        """The whole input as one JSON value."""
        self.is_read = True
        if isinstance(self._parsed_document, InputError):
            raise self._parsed_document
        return self._parsed_document

    @cached_property
    def _parsed_document(self) -> Any:
        """The value, or the error that says why there is none."""
        raw = self.whole
        try:
            return decode_json(raw)
        except (ValueError, RecursionError) as problem:
            value = parse_with_surrogates(raw)
            if value is None:
                return self._describe_json_fault(raw, problem)
            self.repaired[1] = None
            return value

    @cached_property
    def _glued_values(self) -> list[Any]:
        """The values of an input that holds several without being JSON lines; else empty."""
        if self.is_folder:
            return []
        if self.head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] not in (b"{", b"["):
            return []
        if not isinstance(self._parsed_document, InputError):
            return []
        return split_concatenated(self.whole) or []

    @cached_property
    def text(self) -> str:
        """The whole input as text; what is not UTF-8 is replaced and noted."""
        self.is_read = True
        raw = self.whole
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self.repaired[raw.count(b"\n", 0, error.start) + 1] = None
            return raw.decode("utf-8", "replace")

    def records(
        self, decode: Decode = decode_json, *, is_preview: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield every record with its line number, or its number in a saved stream.

        Empty lines are skipped. A preview reports no progress and does not count as reading.
        """
        if self.shape == "document":
            value = self.document
            values = value if isinstance(value, list) else [value]
            return enumerate(values, 1)
        self.is_read = self.is_read or not is_preview
        if self._all_records is not None and decode is decode_json:
            return self._repeat_records(self._all_records, is_preview)
        if self.shape == "glued":
            return enumerate(self._glued_values, 1)
        if self.shape == "events":
            return self._decode_events(decode)
        return self._read_line_records(decode, is_preview)

    def lines(self) -> Iterator[tuple[int, Any]]:
        """Yield every line of JSON lines with its number: its record, or an irregular line."""
        return self._read_line_records(decode_json, is_preview=True, joins_lines=True)

    def _repeat_records(
        self, records: list[tuple[int, Any]], is_preview: bool
    ) -> Iterator[tuple[int, Any]]:
        """Yield records that were parsed before."""
        yield from records
        if self.progress and not is_preview:
            self.progress(self.size)

    def record_at(self, number: int) -> Any:
        """Return one record by its number."""
        self.is_read = True
        if self.shape == "document":
            return self.document[number - 1] if isinstance(self.document, list) else self.document
        if self.shape != "lines":
            return next(record for place, record in self.records() if place == number)
        with self.opened() as stream:
            stream.seek(self._line_offsets[number - 1])
            line = stream.readline()
        try:
            return decode_json(line)
        except (ValueError, RecursionError) as problem:
            line = line.removeprefix(codecs.BOM_UTF8)
            return self._recover_records(number, line, problem, decode_json)[0]

    @cached_property
    def _line_offsets(self) -> list[int]:
        """Where each line begins, and where the last one ends."""
        with self.opened() as stream:
            return list(accumulate(map(len, stream), initial=0))

    def _read_line_records(
        self, decode: Decode, is_preview: bool, joins_lines: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield the records of JSON lines; with `joins_lines`, irregular lines in one piece.

        This is the hot loop: a single generator, which reports progress once per megabyte.
        """
        with self.opened() as stream:
            self._bytes_read = done = 0
            reports_progress = self.progress is not None and not is_preview
            has_record = False
            for number, line in enumerate(stream, 1):
                # Empty lines and byte order marks are looked for only after the parser refused a
                # line: nearly all lines are valid.
                try:
                    record = decode(line)
                except (ValueError, RecursionError) as problem:
                    content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                    if not content.strip():
                        continue
                    recovered = self._recover_records(number, content, problem, decode)
                    # Objects found in bytes that are no text do not make it a session.
                    has_record = has_record or (bool(recovered) and is_utf8(line))
                    if joins_lines:
                        yield number, IrregularLine(line, recovered)
                    else:
                        for record in recovered:
                            yield number, record
                else:
                    has_record = True
                    yield number, record
                done += len(line)
                if done >= _PROGRESS_BYTES and reports_progress:
                    self._report_progress(stream, done)
                    done = 0
            if not has_record and self.first_fault is not None:
                raise self.first_fault
            if reports_progress:
                self._report_progress(stream, done)

    def _report_progress(self, stream: BinaryIO, done: int) -> None:
        self._bytes_read += done
        if self.progress:
            # Of a gzip file, the compressed bytes count.
            self.progress(getattr(stream, "place", self._bytes_read))

    def _decode_events(self, decode: Decode) -> Iterator[tuple[int, Any]]:
        """Yield the records of a saved stream of server-sent events."""
        has_record = False
        for number, data in self._event_data():
            try:
                recovered = [decode(data)]
            except (ValueError, RecursionError) as problem:
                recovered = self._recover_records(number, data, problem, decode)
            has_record = has_record or (bool(recovered) and is_utf8(data))
            for record in recovered:
                yield number, record
        if not has_record and self.first_fault is not None:
            raise self.first_fault

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with self.opened() as stream:
            for number, line in enumerate(stream, 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield number, line

    def _event_data(self) -> Iterator[tuple[int, bytes]]:
        """Yield the data of each server-sent event, with the number of its first line.

        `[DONE]` and comments are not records.
        """
        data: list[bytes] = []
        first = 0
        for number, line in self._lines():
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                first = first or number
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                if data != [b"[DONE]"]:
                    yield first, b"\n".join(data)
                data = []
                first = 0
        if data and data != [b"[DONE]"]:
            yield first, b"\n".join(data)

    def _recover_records(
        self, number: int, line: bytes, problem: Exception, decode: Decode
    ) -> list[Any]:
        """Return the records of a line that the fast parser refused.

        What is not valid Unicode is replaced. A last line that is cut off has none. Of any other
        line the whole objects are read, and the rest of it is counted as torn. An input in which no
        line is JSON is refused at its end, with the first fault.
        """
        if number == 1:
            # The parser may have refused the byte order mark.
            with contextlib.suppress(ValueError, RecursionError):
                return [decode(line)]
        value = parse_with_surrogates(line)
        if value is not None:
            self.repaired[number] = None
            return [value]
        # The agent is writing this line just now, or was killed while it did.
        is_last = not line.endswith(b"\n") and number > 1
        if is_last and self.shape == "lines" and is_truncated_json(line):
            self.half_line = number
            return []
        fault = self._describe_json_fault(line, problem, number)
        # A line that is too deep is whole: to go on would drop what somebody said.
        if fault.code == "input.deep":
            raise fault from None
        if self.first_fault is None:
            self.first_fault = fault
        value = parse_with_replacement(line)
        if value is not None:
            self.repaired[number] = None
            return [value]
        found, lost = find_objects(line)
        records = []
        for item in found:
            record = self._decode_object(number, item, decode)
            if record is None:
                lost += len(item)
            else:
                records.append(record)
        if lost:
            self.torn[number] = lost
        if len(self.torn) > _MAX_TORN_LINES:
            raise self.first_fault
        return records

    def _decode_object(self, number: int, item: bytes, decode: Decode) -> Any | None:
        """Return an object of a torn line, repaired if need be; None if it cannot be read."""
        with contextlib.suppress(ValueError, RecursionError):
            return decode(item)
        value = parse_with_surrogates(item)
        if value is None:
            value = parse_with_replacement(item)
        if value is not None:
            self.repaired[number] = None
        return value

    def _describe_json_fault(
        self, raw: bytes, problem: Exception, line: int | None = None
    ) -> InputError:
        """Return the error for bytes that are not JSON; `line` is None for a whole document."""
        # In this order: a parser reports bytes that are not UTF-8, and nesting that is too deep, as
        # errors of syntax, too, at places that would mislead.
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            return self._describe_utf8_fault(raw, error.start, line)
        if isinstance(problem, RecursionError) or measure_depth(raw) > _MAX_DEPTH:
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
        if line is not None:
            row = line
        return InputError(
            "this line is not JSON" if line else "the input is not JSON",
            where=f"{self.name}:{row}:{column}",
            help="fix or remove that line in a copy; nothing was exported",
            code="input.json",
        )

    def _describe_utf8_fault(self, raw: bytes, position: int, line: int | None) -> InputError:
        row = line or 1
        if line is None:
            row += raw.count(b"\n", 0, position)
        column = position - raw.rfind(b"\n", 0, position)
        command = f"iconv -c -f {detect_encoding(raw)} -t utf-8 FILE > COPY"
        return InputError(
            "the input is not valid UTF-8",
            where=f"{self.name}:{row}:{column}",
            help=f"repair a copy first, for example: {command}",
            code="input.utf8",
        )


def _open_anew(
    name: str, path: Path | None, data: bytes | None, is_folder: bool, conversation: str | None
) -> Source:
    source = Source(name, path=path, data=data, is_folder=is_folder)
    source.conversation = conversation
    return source
