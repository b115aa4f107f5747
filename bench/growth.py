"""Growth of every reader: what twice as many records cost, over all golden cases, each made long in
several ways.

    python bench/growth.py [READER ...]

A case is made long by repeating its lines, one of its lists, its rows or its text, with ids of
their own in each copy or with the same ids again. CPU seconds of an export without redaction for n
and 2n; all conversations of an input that holds several, with native=full. More than 2.2 means that
the work grows faster than the input."""

import copy
import gc
import io
import json
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.library.export_many import export_conversations
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, detect_format, list_conversations
from open_token.sources.source import Source

ROOT = Path(__file__).resolve().parents[1]
WORDS = {
    "redact": "none",
    "mode": "ndjson",
    "exported_at": "omit",
    "branches": "all",
    "integrity": "none",
}
USUAL = Context(ExportOptions.of(WORDS))
WHOLE = Context(
    ExportOptions.of({**WORDS, "native": "full", "include": "include-internal", "internal": "full"})
)
LIMIT = 2.2
SMALLEST = 0.04
"""Seconds that n copies should take, so that the fixed cost of an export does not hide the
growth."""
LARGEST = 1 << 20
_OWN = re.compile(r"(?:^id|Id|ID|_id|[uU]uid|^call|parentUuid|leafUuid|prefix)$")
_COMMON = re.compile(
    r"session|thread|trace|conversation|project|agent|model|run|user", re.IGNORECASE
)
_PARENT = re.compile(r"parent", re.IGNORECASE)


def named(value: Any, copy_number: int, last: str | None) -> Any:
    """The value with ids of its own; what had no parent goes on from the copy before."""
    if isinstance(value, dict):
        made = {}
        for key, item in value.items():
            if isinstance(item, str) and _OWN.search(key) and not _COMMON.search(key):
                made[key] = f"{item}-{copy_number}"
            elif item is None and _PARENT.search(key) and last:
                made[key] = last
            else:
                made[key] = named(item, copy_number, last)
        return made
    return [named(item, copy_number, last) for item in value] if isinstance(value, list) else value


def repeated(items: list[Any], count: int, is_renamed: bool) -> list[Any]:
    """So many copies of the items."""
    made: list[Any] = []
    last = None
    for number in range(count):
        made += [named(item, number, last) for item in items] if is_renamed else items
        ids = [item.get("uuid") or item.get("id") for item in made[-1:] if isinstance(item, dict)]
        last = ids[0] if ids and isinstance(ids[0], str) else None
    return made


def lists(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of the lists of objects in a value."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            yield path
        for place, item in enumerate(value[:2]):
            yield from lists(item, (*path, place))
    elif isinstance(value, dict) and len(path) < 7:
        for key, item in value.items():
            yield from lists(item, (*path, key))


def with_list(value: Any, path: tuple[Any, ...], change: Callable[[list[Any]], list[Any]]) -> Any:
    """The value with one of its lists changed."""
    if not path:
        return change(value)
    made = copy.copy(value)
    made[path[0]] = with_list(value[path[0]], path[1:], change)
    return made


Grow = Callable[[int], bytes]


def long_list(document: Any, path: tuple[Any, ...], is_renamed: bool, count: int) -> bytes:
    """A document in which one list has so many copies of its items."""
    return json.dumps(
        with_list(document, path, lambda items: repeated(items, count, is_renamed))
    ).encode()


def long_lines(records: list[Any], is_renamed: bool, count: int) -> bytes:
    """The first line, and so many copies of the others."""
    head, *rest = records
    return b"".join(
        json.dumps(record).encode() + b"\n" for record in [head, *repeated(rest, count, is_renamed)]
    )


def long_line(
    records: list[Any], place: int, path: tuple[Any, ...], is_renamed: bool, count: int
) -> bytes:
    """Lines of which one has a long list."""
    lines = [json.dumps(record).encode() for record in records]
    lines[place] = long_list(records[place], path, is_renamed, count)
    return b"\n".join(lines) + b"\n"


def ways(data: bytes) -> Iterator[tuple[str, Grow]]:
    """Every way in which an input can be made long."""
    try:
        document = json.loads(data)
        records = [document] if isinstance(document, dict) and data.count(b"\n") < 2 else []
    except ValueError:
        try:
            records = [json.loads(line) for line in data.splitlines() if line.strip()]
        except ValueError:
            yield "text", lambda count: data * count
            return
    for is_renamed, ids in ((True, "own ids"), (False, "same ids")):
        if not records:
            for path in lists(document):
                yield (
                    f"{'.'.join(map(str, path)) or 'items'}, {ids}",
                    partial(long_list, document, path, is_renamed),
                )
        if len(records) > 1:
            yield f"lines, {ids}", partial(long_lines, records, is_renamed)
        for place, record in enumerate(records[:3]):
            for path in lists(record):
                name = f"line {place + 1} {'.'.join(map(str, path))}, {ids}"
                yield name, partial(long_line, records, place, path, is_renamed)


def rows(script: str) -> Iterator[tuple[str, Grow]]:
    """A database with its rows several times."""

    def made(count: int, is_one: bool) -> bytes:
        base = sqlite3.connect(":memory:")
        base.executescript(script)
        for (table,) in base.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            columns = [row[1] for row in base.execute(f'PRAGMA table_info("{table}")')]
            marks = ", ".join("?" for _ in columns)
            held = base.execute(f'SELECT * FROM "{table}"').fetchall()
            if is_one and "session" in table and "message" not in table:
                continue
            for number in range(1, count):
                for row in held:
                    other = [
                        _renamed(value, column, number, is_one)
                        for value, column in zip(row, columns, strict=True)
                    ]
                    base.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({marks})', other)
        base.commit()
        return base.serialize()

    yield "rows, more conversations", lambda n: made(n, False)
    yield "rows, one conversation", lambda n: made(n, True)


def _renamed(value: Any, column: str, number: int, is_one: bool) -> Any:
    if isinstance(value, int) and column == "id":
        return value + 1000 * number
    is_id = column in ("id", "message_id", "key", "composerId") or (
        not is_one and column.endswith("_id")
    )
    if not isinstance(value, str) or not is_id:
        return value
    kind, colon, rest = value.partition(":")
    return f"{kind}:{number}{rest}" if colon else f"{value}{number}"


def cost(data: bytes) -> float:
    """CPU seconds of all that a user can ask for; the best of two."""
    best = 1e9
    for _ in range(2):
        gc.collect()
        source = Source("case", data=data)
        started = time.process_time()
        reader = detect_format(source)
        if len(list_conversations(source, reader)) > 1:
            with tempfile.TemporaryDirectory(prefix="open-token-growth-") as folder:
                export_conversations(source, reader, Path(folder) / "all", WHOLE)
        else:
            export(source, io.BytesIO(), USUAL, reader)
            export(source, io.BytesIO(), WHOLE, reader)
        best = min(best, time.process_time() - started)
        if best > 1:
            break
    return best


def measure(grow: Grow) -> tuple[int, float, float] | None:
    """How many copies, and the seconds for them and for twice as many; None for what cannot be
    exported."""
    count = 8
    while True:
        data = grow(count)
        try:
            spent = cost(data)
        except OpenTokenError:
            return None
        if spent >= SMALLEST or len(data) > LARGEST:
            break
        count *= 2 if spent > SMALLEST / 4 else 4
    twice = cost(grow(2 * count))
    if twice <= LIMIT * spent:
        return count, spent, twice
    # Once may be chance; what grows too fast does so again, and more.
    more, most = cost(grow(4 * count)), cost(grow(8 * count))
    return 4 * count, more, most


def main(wanted: list[str]) -> int:
    """Print the cases that grow too fast, and how many were tried."""
    gc.disable()
    tried, slow = 0, 0
    for reader in wanted or READERS:
        worst = 0.0
        for case in sorted((ROOT / "tests" / "golden" / reader).glob("*/input*")):
            if case.is_dir():
                continue
            is_script = case.name == "input.sql"
            for name, grow in rows(case.read_text()) if is_script else ways(case.read_bytes()):
                if (found := measure(grow)) is None:
                    continue
                count, one, two = found
                tried += 1
                worst = max(worst, two / one)
                if two / one > LIMIT and one >= SMALLEST / 2:
                    slow += 1
                    times = f"{count} x {one:.2f} s, {2 * count} x {two:.2f} s"
                    print(
                        f"  {two / one:.2f} {reader}/{case.parent.name}: {name}: {times}",
                        flush=True,
                    )
        print(f"{reader:20} {worst:.2f}", flush=True)
    print(f"{tried} ways of growing tried, {slow} faster than {LIMIT}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
