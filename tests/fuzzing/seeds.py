"""The inputs that mutation starts from: the examples, the inputs of the golden cases, and exports of both."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from fuzzing.folders import pack
from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.source import Source

TESTS = Path(__file__).resolve().parent.parent
LARGEST = 1 << 16
KEY = bytes(range(32))
WAYS: tuple[dict[str, str], ...] = (
    {"mode": "json"},
    {"mode": "json", "pretty": "false", "integrity": "tree", "include": "include-internal", "internal": "full"},
    {"mode": "ndjson", "native": "full"},
    {"mode": "ndjson", "integrity": "none", "include": "include-internal", "internal": "summary"},
)


def conversations(more: Iterable[Path] = ()) -> list[bytes]:
    """One input per format and case, and the small files of the folders that are named beside."""
    found = [path.read_bytes() for path in sorted((TESTS.parent / "examples").glob("*")) if path.is_file()]
    for path in sorted((TESTS / "golden").glob("*/*/input*")):
        found += _folders(path) if path.is_dir() else [path.read_bytes()]
    for folder in more:
        found += [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and _is_small(path)]
    return [data for data in dict.fromkeys(found) if len(data) <= LARGEST]


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= LARGEST


def _folders(folder: Path) -> Iterator[bytes]:
    """The folder once per conversation in it: each is opened in turn, with the others beside it."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for first in paths:
        ordered = [first, *(path for path in paths if path != first)]
        yield pack({str(path.relative_to(folder)): path.read_bytes() for path in ordered})


def exports(sources: Iterable[bytes]) -> list[bytes]:
    """What becomes of the conversations, in every shape an export can have."""
    return [made for number, data in enumerate(sources) if (made := exported(data, WAYS[number % len(WAYS)]))]


def exported(data: bytes, words: dict[str, str]) -> bytes:
    """The export of an input; nothing when it is refused."""
    out = io.BytesIO()
    try:
        export(Source("seed", data=data), out, Context(ExportOptions.of({"exported_at": "omit"} | words), key=KEY))
    except OpenTokenError:
        return b""
    return out.getvalue()
