"""SQL over a dataset, by DuckDB, with views that have the names people expect."""

import csv
import os
from typing import Any, TextIO

from open_token.dataset.build import read_manifest
from open_token.dataset.inputs import is_url, open_filesystem
from open_token.dataset.output import open_output
from open_token.dataset.read import list_files
from open_token.errors import UsageError

_VIEWS = {
    "sessions": "SELECT * FROM conversations",
    "calls": """
        SELECT use.content_hash, use.conversation_id, use.seq, TRY_CAST(use.ts AS TIMESTAMPTZ) AS time,
            use.tool_name AS tool, use.data -> '$.arguments' AS arguments,
            coalesce(result.text, result.data) AS output, result.seq AS result_seq
        FROM events AS use LEFT JOIN events AS result
            ON result.content_hash = use.content_hash AND result.call_id = use.call_id
            AND result.type = 'tool_result'
        WHERE use.type = 'tool_use'
    """,
    "usage": """
        SELECT content_hash, conversation_id, seq, TRY_CAST(ts AS TIMESTAMPTZ) AS time, actor_id,
            input_tokens, output_tokens, reasoning_tokens, cache_read_tokens, cache_write_tokens
        FROM events WHERE input_tokens IS NOT NULL OR output_tokens IS NOT NULL
    """,
}
VIEWS = ("sessions", "events", "calls", "usage")
"""The views of a dataset of profile `events`; the others have `sessions` alone."""


class QueryResult:
    """The columns and rows of an answer."""

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows

    def write_csv(self, out: TextIO) -> None:
        """Write the answer as CSV with a header."""
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)


def query(sql: str, location: str) -> QueryResult:
    """Run one SQL statement over a dataset, which it cannot change."""
    try:
        import duckdb
    except ImportError:
        raise UsageError(
            "queries need the package duckdb", help='pip install "open-token-cli[dataset]"'
        ) from None
    connection = duckdb.connect(":memory:")
    try:
        _create_views(connection, location)
        _forbid_other_files(connection, location)
        cursor = connection.execute(sql)
        columns = [column[0] for column in cursor.description or []]
        return QueryResult(columns, cursor.fetchall())
    except duckdb.Error as problem:
        raise UsageError(
            f"the query failed: {_first_line(problem)}",
            help=f"the views are {', '.join(VIEWS)}; `describe sessions` lists the columns of one",
        ) from None
    finally:
        connection.close()


def _forbid_other_files(connection: Any, location: str) -> None:
    """Let the statement, which may come from anybody, read this dataset and nothing else."""
    if not is_url(location):
        folder = os.path.abspath(location).replace("'", "''")
        connection.execute(f"SET allowed_directories = ['{folder}/']")
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]


def _create_views(connection: Any, location: str) -> None:
    output = open_output(location)
    if is_url(location):
        connection.register_filesystem(open_filesystem(location)[0])
    manifest = read_manifest(output)
    if manifest.profile != "events":
        _create_view(connection, "sessions", list_files(location, ""))
        return
    _create_view(connection, "conversations", list_files(location, "conversations"))
    _create_view(connection, "events", list_files(location, "events"))
    for name, statement in _VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {statement}")


def _create_view(connection: Any, name: str, files: list[str]) -> None:
    if not files:
        raise UsageError("this dataset is empty", help="no conversation was read")
    quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    read = "read_json" if files[0].endswith(".jsonl") else "read_parquet"
    options = "" if read == "read_json" else ", hive_partitioning = false"
    connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {read}([{quoted}]{options})")
