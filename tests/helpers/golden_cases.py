"""The golden cases: where they are, and how one is opened."""

import contextlib
import sqlite3
import zipfile
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/*/input*"))
USUAL = {"exported_at": "omit", "redact": "secrets"}


def read_case(case: Path, made: Path) -> tuple[Path, dict[str, str]]:
    """The file to export and the options to do it with."""
    given = case / "options.txt"
    words = USUAL | dict(
        word.split("=", 1) for word in (given.read_text().split() if given.exists() else [])
    )
    name = words.pop("open", "")
    source = next(case.glob("input*"))
    if source.name == "input.sql":
        return _database(source, made / "input.db"), words
    if source.name == "input.zip":
        return _zip(source, made / "input.zip"), words
    if source.is_dir():
        source = source / name if name else next(source.iterdir())
    return source, words


def _database(script: Path, target: Path) -> Path:
    with contextlib.closing(sqlite3.connect(target)) as made:
        made.executescript(script.read_text())
    return target


def _zip(folder: Path, target: Path) -> Path:
    """The same bytes on every machine: files in order of name, all of one time."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            packed.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return target
