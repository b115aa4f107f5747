"""Golden cases: what each reader makes of an input, byte for byte, and what it says it left out.

A case is a folder tests/golden/<reader>/<case>/ with
- `input.*`, or a folder `input/` (its only file is exported; `open=<path in it>` in options.txt
names one of several,
  `open=.` the folder itself), or `input.sql` (a SQLite database is made from it), or a folder
  `input.zip/` (packed);
- optionally `options.txt`: `key=value` words as on the command line, and `conversation=ID` for one
of several;
- `expected.json` and `notes.txt`, written by `make accept` and read by a person.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from helpers.golden_cases import CASES, read_case
from open_token.context import Context
from open_token.model.omissions import Note
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS
from open_token.sources.source import Source
from open_token.validation.validate import validate


def run(path: Path, reader: str, words: dict[str, str], key: bytes) -> tuple[bytes, list[Note]]:
    """The export of a file with nothing of this machine in it: no clock, no settings, a known
    key."""
    out = io.BytesIO()
    source = Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)
    source.conversation = words.pop("conversation", None)
    receipt = export(source, out, Context(ExportOptions.of(words), key=key), reader)
    return out.getvalue(), receipt.notes


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_case(
    case: Path, golden: Callable[[Path, str | bytes], None], known_key: bytes, tmp_path: Path
) -> None:
    source, words = read_case(case, tmp_path)
    data, notes = run(source, case.parent.name, words, known_key)
    golden(case / "expected.json", data)
    golden(
        case / "notes.txt",
        "".join(f"{note.place}: {note.code} x{note.count}: {note.detail}\n" for note in notes),
    )
    if words.get("mode", "json") == "json":
        assert [
            problem for problem in validate(json.loads(data)) if problem.severity == "error"
        ] == []


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_leaves_the_records_as_they_are(
    reader: str, known_key: bytes, tmp_path: Path
) -> None:
    """A short input is parsed once for all who look at it."""
    for case in CASES:
        if case.parent.name != reader:
            continue
        (tmp_path / case.name).mkdir()
        path, words = read_case(case, tmp_path / case.name)
        if path.is_file() and Source.of(path).sample:
            source = Source.of(path)
            source.conversation = words.pop("conversation", None)
            before = msgspec.json.encode(source.sample)
            context = Context(ExportOptions.of(words), key=known_key)
            export(source, io.BytesIO(), context, reader)
            assert msgspec.json.encode(source.sample) == before, case.name


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_has_a_case(reader: str) -> None:
    assert any(case.parent.name == reader for case in CASES), (
        f"add tests/golden/{reader}/<case>/input.*"
    )


def test_every_case_is_of_a_reader() -> None:
    assert {case.parent.name for case in CASES} <= set(READERS)
