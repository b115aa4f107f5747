"""Zed: its database of threads, compressed or not, and what is damaged in it."""

import base64
import json
import sqlite3
from pathlib import Path

import pytest

import open_token
from open_token.agents.zed import reader
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.library.discovery import Discovery
from open_token.native.compression import expand_event
from open_token.native.encoding import Withheld, encode_value
from open_token.registry import READERS, detect_format
from open_token.sources import decompress
from open_token.sources.source import Source
from readers.session_files import GOLDEN, assert_paired

READER = READERS["zed"]
PLACES = (
    ".local/share/zed/threads/threads.db",
    "Library/Application Support/Zed/threads/threads.db",
    "AppData/Local/Zed/threads/threads.db",
)


def make(path: Path, case: str = "threads") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    change(path, (GOLDEN / "zed" / case / "input.sql").read_text())
    return path


def change(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("place", PLACES)
def test_threads_are_listed_without_their_subagents(tmp_path: Path, place: str) -> None:
    make(tmp_path / place)
    discovery = Discovery({}, tmp_path)
    (session,) = [discovery.inspect(item) for item in discovery.sessions()]
    assert (session.reader, session.id, session.title) == ("zed", "main", "Water the ferns")
    assert session.cwd == "/garden"


def test_nobody_else_claims_it(tmp_path: Path) -> None:
    assert detect_format(Source.of(make(tmp_path / "threads.db"))) == "zed"


@pytest.mark.parametrize("subagents", ["inline", "reference", "none"])
def test_calls_pair_with_subagents(tmp_path: Path, subagents: str) -> None:
    draft = Draft(subagents=subagents)
    source = Source.of(make(tmp_path / "threads.db"))
    source.conversation = "main"
    READER.read(source, draft)
    assert_paired(list(draft.finish(lambda: "0" * 64).events))


@pytest.mark.parametrize(
    "data", ["X'28b52ffd00'", "'{'", "'[]'", "X'ff'", "7", "'{\"messages\": 7}'"]
)
def test_a_damaged_thread_is_named(tmp_path: Path, data: str) -> None:
    path = make(tmp_path / "threads.db")
    change(path, f"UPDATE threads SET data = {data}")
    source = Source.of(path)
    source.conversation = "main"
    if "messages" in data:
        READER.read(source, Draft())
        return
    with pytest.raises(InputError) as caught:
        READER.read(source, Draft())
    assert "thread main" in str(caught.value)


def test_a_damaged_subagent_is_noted(tmp_path: Path) -> None:
    path = make(tmp_path / "threads.db")
    change(path, "UPDATE threads SET data = X'28b52ffd00' WHERE id != 'main'")
    source = Source.of(path)
    source.conversation = "main"
    draft = Draft()
    READER.read(source, draft)
    notes = {note.code: note.count for note in draft.notes}
    assert notes["broken-record"] == 2


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompress, "load_zstd", lambda: None)
    with pytest.raises(InputError) as caught:
        reader.load_document(Source.of(make(tmp_path / "threads.db")), "main")
    assert caught.value.code == "input.zstd"
    assert "backports.zstd" in str(caught.value.help)


def test_a_secret_in_a_compressed_thread_is_not_in_native_data(tmp_path: Path) -> None:
    path = make(tmp_path / "threads.db")
    raw = sqlite3.connect(path).execute("SELECT data FROM threads WHERE id = 'main'").fetchone()[0]
    withheld = Withheld(compressed=True)
    assert encode_value({"data": raw}, withheld=withheld) == {"data": {"$withheld": "compressed"}}
    assert encode_value(b"\x00plain", withheld=withheld) == {"$bytes": "AHBsYWlu"}
    encoded = base64.b64encode(raw).decode()
    for level, is_there in (("secrets", False), ("none", True)):
        document = open_token.export(path, conversation="main", redact=level, native="full")
        plain = json.dumps([expand_event(event) for event in document["events"]])
        assert (encoded in plain) is is_there
