"""The inputs that mutation starts from: the examples, the golden cases, real conversations, and
exports of them."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from fuzzing.folders import WHOLE, pack
from fuzzing.packed import database_of, zipped
from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import detect_format
from open_token.sources.source import Source

TESTS = Path(__file__).resolve().parent.parent
CORPUS = TESTS.parent.parent / "shared" / "corpus"
LARGEST = 1 << 16
KEY = bytes(range(32))
WAYS: tuple[dict[str, str], ...] = (
    {"mode": "json"},
    {
        "mode": "json",
        "pretty": "false",
        "integrity": "tree",
        "include": "include-internal",
        "internal": "full",
    },
    {"mode": "ndjson", "native": "full"},
    {"mode": "ndjson", "integrity": "none", "include": "include-internal", "internal": "summary"},
)


def conversations(more: Iterable[Path] = ()) -> list[bytes]:
    """One input per format and case, and what is small of the folders that are named beside."""
    found = [
        path.read_bytes()
        for path in sorted((TESTS.parent / "examples").glob("*"))
        if path.is_file()
    ]
    for path in sorted((TESTS / "golden").glob("*/*/input*")):
        found += _of_case(path)
    for folder in more:
        found += [
            data for path in sorted(folder.rglob("*")) if path.is_file() and (data := _export(path))
        ]
    return [data for data in dict.fromkeys(found) if len(data) <= LARGEST]


def real() -> list[Path]:
    """Where real conversations lie, when they do."""
    return [CORPUS] if CORPUS.is_dir() else []


def _export(path: Path) -> bytes:
    """The export of a file, or of its beginning; nothing if no reader claims it."""
    data = path.read_bytes()
    if len(data) > LARGEST:
        data = data[: data.rfind(b"\n", 0, LARGEST // 2) + 1]
    try:
        detect_format(Source("seed", data=data))
    except OpenTokenError:
        return b""
    return data


def _of_case(path: Path) -> list[bytes]:
    """The inputs of a golden case: a database, a zip, a folder, or a file with the others beside
    it."""
    if path.name == "input.sql":
        return [database_of(path.read_text())]
    if path.name == "input.zip":
        return [zipped(path)]
    if not path.is_dir():
        return [path.read_bytes()]
    options = path.parent / "options.txt"
    is_whole = options.exists() and "open=." in options.read_text().split()
    return list(_folders(path, is_whole))


def _folders(folder: Path, is_whole: bool) -> Iterator[bytes]:
    """The folder as it is, or once per conversation in it: each is opened in turn, with the others
    beside it."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if is_whole:
        yield pack({WHOLE: b"", **files})
        return
    for first in files:
        yield pack({first: files[first], **files})


def exports(sources: Iterable[bytes]) -> list[bytes]:
    """What becomes of the conversations, in every shape an export can have."""
    return [
        made
        for number, data in enumerate(sources)
        if (made := exported(data, WAYS[number % len(WAYS)]))
    ]


def exported(data: bytes, words: dict[str, str]) -> bytes:
    """The export of an input; nothing when it is refused."""
    out = io.BytesIO()
    try:
        export(
            Source("seed", data=data),
            out,
            Context(ExportOptions.of({"exported_at": "omit"} | words), key=KEY),
        )
    except OpenTokenError:
        return b""
    return out.getvalue()
