"""Golden cases: what each reader makes of an input, byte for byte, and what it says it left out.

A case is a folder tests/golden/<reader>/<case>/ with
- `input.*`, or a folder `input/` (its only file is exported; `open=<path in it>` in options.txt names one of several);
- optionally `options.txt`: `key=value` words as on the command line;
- `expected.json` and `notes.txt`, written by `make accept` and read by a person.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from open_token.checking.validate import validate
from open_token.context import Context
from open_token.model import Note
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.readers import NAMES
from open_token.source import Source

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/*/input*"))
USUAL = {"exported_at": "omit", "redact": "secrets"}


def run(path: Path, reader: str, words: dict[str, str], key: bytes) -> tuple[bytes, list[Note]]:
    """The export of a file with nothing of this machine in it: no clock, no settings, a known key."""
    out = io.BytesIO()
    receipt = export(Source.of(path), out, Context(ExportOptions.of(words), key=key), reader)
    return out.getvalue(), receipt.notes


def read_case(case: Path) -> tuple[Path, dict[str, str]]:
    """The file to export and the options to do it with."""
    given = case / "options.txt"
    words = USUAL | dict(word.split("=", 1) for word in (given.read_text().split() if given.exists() else []))
    name = words.pop("open", "")
    source = next(case.glob("input*"))
    if source.is_dir():
        source = source / name if name else next(source.iterdir())
    return source, words


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_case(case: Path, golden: Callable[[Path, str | bytes], None], known_key: bytes) -> None:
    source, words = read_case(case)
    data, notes = run(source, case.parent.name, words, known_key)
    golden(case / "expected.json", data)
    golden(case / "notes.txt", "".join(f"{note.place}: {note.code} x{note.count}: {note.detail}\n" for note in notes))
    if words.get("mode", "json") == "json":
        assert [problem for problem in validate(json.loads(data)) if problem.severity == "error"] == []


@pytest.mark.parametrize("reader", NAMES)
def test_every_reader_has_a_case(reader: str) -> None:
    assert any(case.parent.name == reader for case in CASES), f"add tests/golden/{reader}/<case>/input.*"


def test_every_case_is_of_a_reader() -> None:
    assert {case.parent.name for case in CASES} <= set(NAMES)
