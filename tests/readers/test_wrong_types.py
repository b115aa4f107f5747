"""Golden inputs with one value of another type, everywhere in turn: no reader crashes."""

import functools
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import KEY
from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import list_conversations, load_reader
from open_token.sources.source import Source

GOLDEN = Path(__file__).parent.parent / "golden"
INPUTS = sorted(path for path in GOLDEN.glob("*/*/input.json*") if path.is_file())
READERS = sorted({path.parts[-3] for path in INPUTS})
OTHERS: tuple[Any, ...] = ([], {}, None, 7, -1.5, "", True, ["x"], {"a": []}, 2**70)
WHOLE = {
    "redact": "none",
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "exported_at": "omit",
}
CONTEXTS = [
    Context(ExportOptions.of(WHOLE), key=KEY),
    Context(
        ExportOptions.of(
            {"redact": "none", "exported_at": "omit", "native": "full", "mode": "ndjson"}
        ),
        key=KEY,
    ),
]
PARTS = 6
ONE_IN = 36
"""So many are left out for each that is tried; `make test-full` tries all."""
Place = tuple[str | int, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:4])
        if isinstance(value, list)
        else ()
    )
    for name, item in items:
        yield (*place, name)
        yield from places(item, (*place, name))


def changed(records: list[Any], place: Place, other: Any) -> bytes:
    made = json.loads(json.dumps(records))
    inner = made
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = other
    return b"\n".join(json.dumps(item).encode() for item in made)


def records_of(path: Path) -> list[Any]:
    raw = path.read_bytes()
    try:
        return [json.loads(line) for line in raw.splitlines() if line.strip()]
    except ValueError:
        pass
    try:
        return [json.loads(raw)]
    except ValueError:
        return []


def variants(reader: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Each kind of place once: what it is called, and what makes the input with another value
    there."""
    seen = set()
    for path in (path for path in INPUTS if path.parts[-3] == reader):
        records = records_of(path)
        for number, record in enumerate(records[:40]):
            kind = (
                [str(record.get(name)) for name in ("type", "role", "event")]
                if isinstance(record, dict)
                else []
            )
            for place in places(record):
                name = "/".join(
                    [*kind, *("#" if isinstance(part, int) else part for part in place)]
                )
                if name in seen:
                    continue
                seen.add(name)
                for other in OTHERS:
                    make = functools.partial(changed, records, (number, *place), other)
                    yield f"{path.parent.name} {name} {other!r}", make


def export_one(reader: str, data: bytes, context: Context) -> None:
    source = Source("session", data=data)
    load_reader(reader).sniff(source)
    found = list_conversations(source, reader)
    source.conversation = found[0].id if len(found) > 1 else None
    export(source, io.BytesIO(), context, reader)


def check(reader: str, one_in: int, part: int = 0) -> int:
    """Try the inputs of one part of all; return how many were tried."""
    tried = 0
    for name, make in variants(reader):
        number = zlib.crc32(name.encode())
        if number % one_in != part:
            continue
        tried += 1
        try:
            export_one(reader, make(), CONTEXTS[number // one_in % 2])
        except OpenTokenError:
            continue
        except Exception as problem:
            raise AssertionError(f"{reader}: {name}") from problem
    return tried


@pytest.mark.parametrize("reader", READERS)
def test_some_other_values(reader: str) -> None:
    assert check(reader, ONE_IN) > 3


# In parts, so that no test comes near the limit for a hang on a busy machine.
@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("reader", READERS)
def test_all_other_values(reader: str, part: int) -> None:
    check(reader, PARTS, part)


def test_roles_that_are_lists() -> None:
    """Found by the fuzzer."""
    with pytest.raises(OpenTokenError):
        export_one("ag_ui", b'{"messages":[{"role":[]}]}', CONTEXTS[0])
