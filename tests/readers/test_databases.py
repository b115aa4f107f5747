"""Databases whose columns hold other types than their agents write: SQLite lets any column do so."""

import sqlite3
from pathlib import Path

import pytest

from open_token.api import export
from open_token.errors import OpenTokenError
from open_token.registry import detect_format, list_conversations
from open_token.sources.containers import quote_identifier
from open_token.sources.source import Source

GOLDEN = Path(__file__).parents[1] / "golden"
SCRIPTS = sorted(GOLDEN.glob("*/*/input.sql"))


def list_text_columns(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return table and column of every column that holds text somewhere."""
    found = []
    tables = [
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    for table in map(quote_identifier, tables):
        for row in database.execute(f"PRAGMA table_info({table})").fetchall():
            column = quote_identifier(row[1])
            query = f"SELECT 1 FROM {table} WHERE typeof({column}) = 'text' LIMIT 1"
            if database.execute(query).fetchone():
                found.append((table, column))
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_blobs_where_text_belongs_end_in_an_export_or_a_clear_error(
    script: Path, tmp_path: Path
) -> None:
    path = tmp_path / "input.db"
    database = sqlite3.connect(path)
    database.executescript(script.read_text("utf-8"))
    reader = detect_format(Source.of(path))
    for table, column in list_text_columns(database):
        database.execute(f"UPDATE OR IGNORE {table} SET {column} = CAST({column} AS BLOB)")
        database.commit()
        problems = []
        try:
            for item in list_conversations(Source.of(path), reader):
                export(path, conversation=item.id, reader=reader, exported_at="omit")
        except OpenTokenError as problem:
            problems.append(problem.what)
        assert not [what for what in problems if "cannot be hashed" in what], (table, column)
        database.execute(f"UPDATE OR IGNORE {table} SET {column} = CAST({column} AS TEXT)")
        database.commit()
    database.close()
