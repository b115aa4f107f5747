"""A runtime that does not exist and its reader, for tests of what is the same for every runtime."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from open_token import discover, pipeline, readers
from open_token.cli import export, formats, sessions
from open_token.draft import Draft
from open_token.source import Source

TITLE = "Fake Talk"
PLACES = ("$FAKE_HOME/*.jsonl", ".fake/*/*.jsonl")
PARTS = ("part-*.jsonl",)
NAME = "fake_talk"


def sniff(source: Source) -> bool:
    return any(isinstance(record, dict) and "fake_talk" in record for record in source.sample)


def read(source: Source, draft: Draft) -> None:
    person, model = draft.actor("human", "user"), draft.actor("model", "fake")
    for _, record in source.records():
        if "say" in record:
            draft.message("user", record["say"], person, ts=record.get("ts"))
        elif "think" in record:
            draft.thought(record["think"], model)
        elif "fake_talk" in record:
            draft.conversation["id"] = record["fake_talk"]


def peek(records: list[Any]) -> dict[str, Any]:
    first = records[0] if records else {}
    return {"id": first.get("fake_talk"), "cwd": first.get("cwd"), "title": first.get("title")}


def install(monkeypatch: pytest.MonkeyPatch, *, beside: tuple[str, ...] = ("open_token",)) -> None:
    """Make it a reader, beside no others than the given ones."""
    monkeypatch.setitem(sys.modules, f"open_token.readers.{NAME}", sys.modules[__name__])
    for module in (readers, discover, export, formats, sessions, pipeline):
        if hasattr(module, "NAMES"):
            monkeypatch.setattr(module, "NAMES", (NAME, *beside))


def write(
    path: Path, age: int = 0, *, id: str = "", says: tuple[str, ...] = ("hello",), **facts: Any
) -> Path:
    """A conversation on the disk, so many seconds older than the newest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [{"fake_talk": id or path.stem, **facts}, *({"say": text} for text in says)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path
