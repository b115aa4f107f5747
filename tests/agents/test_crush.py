"""Crush: its database in the folder of a project, other databases."""

import sqlite3
from pathlib import Path

import pytest

from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.session_files import GOLDEN, assert_paired

READER = READERS["crush"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "project" / ".crush" / "crush.db"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.executescript((GOLDEN / "crush/database/input.sql").read_text())
    connection.close()
    return path


def change(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.commit()
    connection.close()


def test_sessions_are_listed_with_their_times(tmp_path: Path, database: Path) -> None:
    discovery = Discovery({}, tmp_path, tmp_path / "project")
    found = {s.title: discovery.inspect(s) for s in discovery.sessions()}
    assert set(found) == {"Bake a cake", "Another talk"}
    assert {s.reader for s in found.values()} == {"crush"}
    assert {s.cwd for s in found.values()} == {str(tmp_path / "project")}
    assert [found[title].modified for title in ("Bake a cake", "Another talk")] == [
        1785578460.0,
        1785578500.0,
    ]


def test_nobody_else_claims_it(database: Path) -> None:
    assert detect_format(Source.of(database)) == "crush"


@pytest.mark.parametrize("subagents", ["inline", "reference", "none"])
def test_calls_pair_with_subagents(database: Path, subagents: str) -> None:
    draft = Draft(subagents=subagents)
    source = Source.of(database)
    source.conversation = "s1"
    READER.read(source, draft)
    assert_paired(list(draft.finish(lambda: "0" * 64).events))


@pytest.mark.parametrize(
    "sql",
    [
        'UPDATE messages SET parts = \'[1, {}, {"type": 3}, {"type": "text", "data": 4}]\'',
        "UPDATE messages SET parts = '{}', role = 'robot'",
        "UPDATE messages SET model = x'00', created_at = 'now'",
        "UPDATE sessions SET parent_session_id = 'm2$$call_2', title = ''",
        "DELETE FROM messages",
        "DELETE FROM sessions",
        "DROP TABLE files",
        "ALTER TABLE messages DROP COLUMN provider",
    ],
)
def test_odd_databases(database: Path, sql: str) -> None:
    change(database, sql)
    source = Source.of(database)
    assert READER.sniff(source)
    for found in READER.list_conversations(source):
        source.conversation = found.id
        draft = Draft()
        READER.read(source, draft)
        assert_paired(list(draft.finish(lambda: "0" * 64).events))
