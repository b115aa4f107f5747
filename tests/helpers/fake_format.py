"""A runtime that does not exist and its reader, for tests of what is the same for every runtime."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers.fake_reader import FakeReader, replace_readers
from open_token import registry
from open_token.builder.draft import Draft
from open_token.sources.source import Source

TITLE = "Fake Session"
PLACES = ("$FAKE_HOME/*.jsonl", ".fake/*/*.jsonl")
PARTS = ("part-*.jsonl",)
NAME = "fake_session"
_REGISTERED = registry.READERS


def sniff(source: Source) -> bool:
    return any(isinstance(record, dict) and "fake_session" in record for record in source.sample)


def read(source: Source, draft: Draft) -> None:
    person, model = draft.get_actor("human", "user"), draft.get_actor("model", "fake")
    for _, record in source.records():
        if "say" in record:
            draft.add_message("user", record["say"], person, ts=record.get("ts"))
        elif "think" in record:
            draft.add_reasoning(record["think"], model)
        elif "fake_session" in record:
            draft.conversation["id"] = record["fake_session"]


def peek(records: list[Any]) -> dict[str, Any]:
    first = records[0] if records else {}
    return {"id": first.get("fake_session"), "cwd": first.get("cwd"), "title": first.get("title")}


def install_fake_format(
    monkeypatch: pytest.MonkeyPatch, *, beside: tuple[str, ...] = ("open_token",), **more: Any
) -> None:
    """Make it a reader, beside no others than the given ones; `more` are functions of its own."""
    # Looked up when they are called, so that a test can replace them.
    functions = {
        name: partial(_call, name)
        for name in ("sniff", "read", "peek", "peek_tail")
        if name in globals()
    }
    functions |= more
    reader = FakeReader(NAME, functions, title=TITLE, places=PLACES, part_files=PARTS)
    kept = {name: _REGISTERED[name] for name in beside}
    replace_readers(monkeypatch, {NAME: reader, **kept})


def _call(name: str, *arguments: Any) -> Any:
    return globals()[name](*arguments)


def write_fake_session(
    path: Path, age: int = 0, *, id: str = "", says: tuple[str, ...] = ("hello",), **facts: Any
) -> Path:
    """A conversation on the disk, so many seconds older than the newest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [{"fake_session": id or path.stem, **facts}, *({"say": text} for text in says)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path
