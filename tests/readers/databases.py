"""Small SQLite databases for the tests of the readers that take them."""

import contextlib
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Event, Record
from open_token.sources.source import Source


def database(folder: Path, script: str, rows: Mapping[str, Any]) -> Source:
    """A database made from a schema and rows; objects and lists in rows become JSON."""
    path = folder / "made.db"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript(script)
        for table, values in rows.items():
            for row in values:
                marks = ", ".join("?" * len(row))
                made.execute(
                    f"INSERT INTO {table} VALUES ({marks})", [_cell(value) for value in row]
                )
        made.commit()
    return Source.of(path)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def read_conversation(
    reader: ModuleType, source: Source, conversation: str | None = None, **options: Any
) -> tuple[Record, Any]:
    """What a reader, which must claim the source, makes of a conversation in it."""
    assert reader.sniff(source)
    source.conversation = conversation
    draft = Draft(**options)
    reader.read(source, draft)
    record = draft.finish(lambda: "0" * 64)
    events: list[Event] = list(record.events)
    return record, events


def codes(record: Record) -> dict[str, int]:
    """The notes by code, with how often."""
    found: dict[str, int] = {}
    for note in record.notes:
        found[note.code] = found.get(note.code, 0) + note.count
    return found


def notes_of(events: list[Event], kind: str) -> list[Any]:
    """The data of annotations and spans of a kind."""
    data = [event["content"].get("data") for event in events]
    return [item for item in data if isinstance(item, dict) and item.get("kind") == kind]
