"""Opens files, folders, gzip and standard input and hands readers a Source; nothing else opens input."""

import codecs
import contextlib
import gzip
import hashlib
import io
import json
import re
import weakref
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import orjson

from open_token.errors import InputError
from open_token.unpacked import LIMIT, TooLarge, Unpacked
from open_token.walk import without_lone_surrogates

SAMPLE_RECORDS = 64
_HEAD = 1 << 16
_GZIP = b"\x1f\x8b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TICK = 1 << 20
_IN_MEMORY = 1 << 25

Decode = Callable[[bytes], Any]
decode_json: Decode = msgspec.json.decode


class HalfLine(Exception):
    """The last line broke off: the runtime is still writing, or stopped in the middle."""


class Source:
    """One input: its name for messages, its bytes as lines, records or one document, and its neighbours on the disk."""

    def __init__(self, name: str, *, path: Path | None = None, data: bytes | None = None) -> None:
        self.name = name
        self.path = path
        self._data = data
        self._done = 0
        self.progress: Callable[[int], None] | None = None
        self.half_line: int | None = None
        """The number of a half-written last line that was left out."""
        self.repaired: dict[int, None] = {}
        """The numbers of records in which lone surrogates were replaced, in order, each once."""

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> "Source":
        """The source for a path; an error when it is not there or is no readable file."""
        name = name or str(path)
        try:
            if path.is_dir():
                raise InputError("this is a folder, not a conversation", where=name, help="name a file in it")
            with path.open("rb") as stream:
                if not path.is_file():
                    return cls.of_stream(stream, name)
        except OSError as problem:
            raise _cannot_read(name, problem) from None
        return cls(name, path=path)

    @classmethod
    def of_stream(cls, stream: BinaryIO, name: str) -> "Source":
        """The source for a stream that can be read once; what is too big for memory goes through a temporary file."""
        data = stream.read(_IN_MEMORY)
        if len(data) < _IN_MEMORY:
            return cls(name, data=data)
        import shutil
        import tempfile

        held = tempfile.NamedTemporaryFile(prefix="open-token-")  # noqa: SIM115 - lives as long as the source
        held.write(data)
        shutil.copyfileobj(stream, held, 1 << 20)
        held.flush()
        source = cls(name, path=Path(held.name))
        weakref.finalize(source, held.close)
        return source

    def open(self) -> BinaryIO:
        """The bytes from the start, unpacked when they are gzip."""
        if self._data is not None:
            raw: BinaryIO = io.BytesIO(self._data)
        else:
            assert self.path is not None
            raw = self.path.open("rb", buffering=1 << 20)
        start = raw.read(2)
        raw.seek(0)
        return Unpacked(raw) if start == _GZIP else raw  # type: ignore[return-value]

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The bytes from the start; damaged gzip and a disk that fails are errors with a place."""
        try:
            with self.open() as stream:
                yield stream
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise InputError(
                "the gzip data is damaged or cut off",
                where=self.name,
                help="unpack what is left with gzip -dc and export that",
                code="input.gzip",
            ) from None
        except TooLarge:
            raise InputError(
                f"one line or document of the gzip data is larger than {LIMIT >> 20} MiB",
                where=self.name,
                help="if you trust it, unpack it with gzip -d and export that",
                code="input.gzip-large",
            ) from None
        except OSError as problem:
            raise _cannot_read(self.name, problem) from None

    @property
    def size(self) -> int:
        """The bytes on the disk; what progress is measured against."""
        return len(self._data) if self._data is not None else self.path.stat().st_size if self.path else 0

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        with self.opened() as stream:
            return stream.read(_HEAD)

    @cached_property
    def sha256(self) -> str:
        """The hash of all bytes as they lie."""
        if self._data is not None:
            return hashlib.sha256(self._data).hexdigest()
        assert self.path is not None
        with self.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    @cached_property
    def shape(self) -> str:
        """What the bytes are: empty, binary, text, lines (JSON lines), document (one JSON value) or events (SSE)."""
        start = self.head.removeprefix(codecs.BOM_UTF8).lstrip()
        if not start:
            return "empty"
        if start.startswith(_UTF16):
            return "text"
        if b"\0" in start[:1024]:
            return "binary"
        if re.match(rb"(event|data|id|retry|:)[: ]?[^\n]*\n", start) and b"data:" in start:
            return "events"
        if start[:1] not in b'{["':
            return "text"
        return "lines" if self._first_line_is_whole() else "document"

    def _first_line_is_whole(self) -> bool:
        """Whether the first line is a JSON value of its own and more follows (or it is an object a line could hold)."""
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
        """The first records of a JSON-lines source, or the value itself of a document, for readers to look at."""
        if self.shape == "document":
            return [self.document]
        if self.shape not in ("lines", "events"):
            return []
        found: list[Any] = []
        with contextlib.suppress(InputError):
            found.extend(record for _, record in islice(self.records(tell=False), SAMPLE_RECORDS))
        return found

    def opening(self, budget: int) -> list[Any]:
        """The records that begin within the first bytes, but for those that do not parse: a look at a long file."""
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
        with self.opened() as stream:
            raw = stream.read().removeprefix(codecs.BOM_UTF8)
        try:
            return decode_json(raw)
        except (ValueError, RecursionError) as problem:
            if (value := _with_surrogates(raw)) is not None:
                self.repaired[1] = None
                return value
            raise self._not_json(raw, problem) from None

    def records(self, decode: Decode = decode_json, *, tell: bool = True) -> Iterator[tuple[int, Any]]:
        """Every record with its line number (or its number in a saved stream); empty lines are passed over."""
        if self.shape == "document":
            value = self.document
            return enumerate(value if isinstance(value, list) else [value], 1)
        if self.shape == "events":
            return self._decoded(self._event_data(), decode)
        return self._line_records(decode, tell)

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

    def _tell_progress(self, stream: BinaryIO, done: int) -> None:
        self._done += done
        if self.progress:
            self.progress(getattr(stream, "place", self._done))

    def _decoded(self, lines: Iterator[tuple[int, bytes]], decode: Decode) -> Iterator[tuple[int, Any]]:
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
        """A record that the fast parser refused: lone surrogates are mended, a half last line is left out."""
        if number == 1:
            with contextlib.suppress(ValueError, RecursionError):
                return decode(line)
        if (value := _with_surrogates(line)) is not None:
            self.repaired[number] = None
            return value
        if not line.endswith(b"\n") and number > 1 and self.shape == "lines" and _breaks_off(line):
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
                help=f"repair a copy first, for example: iconv -c -f {_encoding(raw)} -t utf-8 FILE > COPY",
                code="input.utf8",
            )
        if isinstance(problem, RecursionError):
            return InputError(
                "the JSON is nested too deep",
                where=f"{self.name}:{line or 1}",
                help="nothing was exported",
                code="input.deep",
            )
        if self.shape == "text" and line == 1:
            return InputError(
                "this is text, not a conversation this version reads",
                where=self.name,
                help="list what can be read with `open-token formats`",
                code="input.unknown",
            )
        row, column = _place(raw if line is None else raw.rstrip())
        row = line if line is not None else row
        return InputError(
            "this line is not JSON" if line else "the input is not JSON",
            where=f"{self.name}:{row}:{column}",
            help="mend or remove that line in a copy; nothing was exported",
            code="input.json",
        )

    def neighbour(self, *parts: str) -> "Source | None":
        """A file beside this one; None when there is none, it is a link that leads elsewhere, or this is no file."""
        if self.path is None:
            return None
        folder = self.path.parent
        path = folder.joinpath(*parts)
        return Source(str(path), path=path) if path.is_file() and _is_below(path, folder.resolve()) else None

    def neighbours(self, pattern: str) -> list["Source"]:
        """The files beside this one that match, in order of name; a link that leads elsewhere is none of them."""
        if self.path is None:
            return []
        folder = self.path.parent
        while pattern.startswith("../"):
            folder, pattern = folder / "..", pattern[3:]
        home = folder.resolve()
        found = (path for path in sorted(folder.glob(pattern)) if path.is_file())
        return [Source(str(path), path=path) for path in found if _is_below(path, home)]


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def _cannot_read(name: str, problem: OSError) -> InputError:
    reason = problem.strerror or type(problem).__name__
    return InputError(f"cannot read the input: {reason}", where=name, help="check the path")


def _encoding(raw: bytes) -> str:
    return "utf-16" if raw.startswith(_UTF16) else "utf-8"


def _breaks_off(line: bytes) -> bool:
    """Whether a line is the beginning of JSON and nothing is wrong with it but that it ends."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(line)
        orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        return problem.pos >= len(text)
    except UnicodeDecodeError:
        return False
    return False


def _with_surrogates(raw: bytes) -> Any | None:
    """The value when lone surrogates were the only fault, with each replaced by U+FFFD; else None."""
    if b"\\u" not in raw:
        return None
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return without_lone_surrogates(value)


def _place(raw: bytes) -> tuple[int, int]:
    """Line and column at which the bytes stop being JSON."""
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as problem:
        return problem.lineno, problem.colno
    return 1, 1


def _refuse(word: str) -> Any:
    raise ValueError(word)
