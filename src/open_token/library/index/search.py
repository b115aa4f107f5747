"""Search the index: events that match a query, grouped by session."""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from open_token.errors import UsageError
from open_token.library.index.blocks import (
    format_event_id,
    mark_role,
    mark_tool,
    unpack_text,
)
from open_token.library.index.events import ROLES
from open_token.library.index.query import Query
from open_token.library.index.text import fold

_SNIPPET_BEFORE = 60
_SNIPPET_LENGTH = 200
_MAX_PATTERN = 1000
# A word that is in every event, or a pattern without words, would read the whole index.
_MAX_EVENTS = 500_000
_COLUMNS = (
    "event.block, event.seq, event.event_id, event.role, event.tool, event.path, event.ts, "
    "event.start, event.length, block.session"
)


@dataclass(frozen=True)
class Filters:
    """Which events are searched; an empty field means all."""

    agent: str = ""
    folder: str = ""
    """The working directory of the session, or a directory above it."""
    project: str = ""
    """A part of the working directory's path, in any case."""
    since: float | None = None
    until: float | None = None
    role: str = ""
    tool: str = ""
    path: str = ""
    """A part of the path that a tool call works on, in any case."""
    pattern: str = ""
    """A regular expression (RE2) that the text must match."""


class Hit(msgspec.Struct, frozen=True):
    """One event that matches."""

    seq: int
    event_id: str
    role: str
    tool: str
    path: str
    ts: float | None
    snippet: str


class FoundSession(msgspec.Struct):
    """A session with events that match."""

    id: str
    reader: str
    title: str
    cwd: str
    branch: str
    modified: float
    path: str
    conversation: str
    hits: list[Hit] = msgspec.field(default_factory=list)
    """The first events that match, in order."""
    more: int = 0
    """How many further events match."""


@dataclass
class SearchResult:
    """Sessions in order of their last change, newest first."""

    sessions: list[FoundSession] = field(default_factory=list)
    is_complete: bool = True
    """False if older sessions may match, too."""


class _Row(NamedTuple):
    block: int
    seq: int
    event_id: str | None
    role: int
    tool: str | None
    path: str | None
    ts: float | None
    start: int
    length: int
    session: int


class Searcher:
    """Runs queries on an index."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._block_id = 0
        self._block_text = ""

    def search(
        self, query: Query, filters: Filters, *, max_sessions: int = 20, max_hits: int = 3
    ) -> SearchResult:
        """Return the newest sessions that match, each with its first events that do."""
        pattern = _compile_pattern(filters.pattern)
        must_read = pattern is not None or query.has_phrases
        found: dict[int, list[_Row]] = {}
        more: dict[int, int] = {}
        result = SearchResult()
        for count, row in enumerate(self._iter_events(query, filters)):
            is_new = row.session not in found
            if count == _MAX_EVENTS or (is_new and len(found) == max_sessions):
                result.is_complete = False
                break
            if must_read and not self._matches(row, query, pattern):
                continue
            rows = found.setdefault(row.session, [])
            # Events come from the last to the first, and the first are shown.
            rows.append(row)
            if len(rows) > max_hits:
                rows.pop(0)
                more[row.session] = more.get(row.session, 0) + 1
        for session_id, rows in found.items():
            session = self._load_session(session_id)
            rows.sort(key=lambda row: row.seq)
            session.hits = [self._build_hit(row, query, pattern) for row in rows]
            session.more = more.get(session_id, 0)
            result.sessions.append(session)
        result.sessions.sort(key=lambda session: -session.modified)
        return result

    def _iter_events(self, query: Query, filters: Filters) -> Iterator[_Row]:
        """Yield the events that contain the words, last indexed first."""
        conditions = []
        values: list[Any] = []
        roles = [mark_role(filters.role)] if filters.role else []
        tools = [mark_tool(filters.tool)] if filters.tool else []
        expression = query.to_fts([roles, tools])
        if expression:
            tables = "word JOIN event ON event.id = word.rowid"
            order = "word.rowid"
            conditions.append("word MATCH ?")
            values.append(expression)
        else:
            tables = "event"
            order = "event.id"
        if filters.agent:
            conditions.append("session.reader = ?")
            values.append(filters.agent)
        if filters.folder:
            folder = filters.folder.rstrip("/\\")
            conditions.append("(session.cwd = ? OR session.cwd LIKE ? ESCAPE '!')")
            values += [folder, f"{_escape_like(folder)}/%"]
        if filters.project:
            conditions.append("session.cwd LIKE ? ESCAPE '!'")
            values.append(f"%{_escape_like(filters.project)}%")
        if filters.path:
            conditions.append("event.path LIKE ? ESCAPE '!'")
            values.append(f"%{_escape_like(filters.path)}%")
        if filters.since is not None:
            conditions.append("coalesce(event.ts, session.modified) >= ?")
            values.append(filters.since)
        if filters.until is not None:
            conditions.append("coalesce(event.ts, session.modified) < ?")
            values.append(filters.until)
        where = " AND ".join(conditions) or "1"
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM {tables} JOIN block ON block.id = event.block "
            f"JOIN session ON session.id = block.session WHERE {where} ORDER BY {order} DESC",
            values,
        )
        return map(_Row._make, rows)

    def _matches(self, row: _Row, query: Query, pattern: Any) -> bool:
        text = self._read_text(row)
        if query.has_phrases and not query.matches(fold(text)):
            return False
        return pattern is None or pattern.search(text) is not None

    def _read_text(self, row: _Row) -> str:
        # Hits of one block follow each other, so remembering one block is enough.
        if row.block != self._block_id:
            packed = self._database.execute(
                "SELECT text FROM block WHERE id = ?", (row.block,)
            ).fetchone()
            self._block_text = unpack_text(packed[0]) if packed else ""
            self._block_id = row.block
        return self._block_text[row.start : row.start + row.length]

    def _load_session(self, session_id: int) -> FoundSession:
        row = self._database.execute(
            "SELECT session_id, reader, title, cwd, branch, modified, path, conversation "
            "FROM session WHERE id = ?",
            (session_id,),
        ).fetchone()
        return FoundSession(*row)

    def _build_hit(self, row: _Row, query: Query, pattern: Any) -> Hit:
        text = self._read_text(row)
        position = _find_first_match(text, query, pattern)
        return Hit(
            seq=row.seq,
            event_id=row.event_id or format_event_id(row.seq),
            role=ROLES[row.role],
            tool=row.tool or "",
            path=row.path or "",
            ts=row.ts,
            snippet=_cut_snippet(text, position),
        )


def _compile_pattern(pattern: str) -> Any:
    """Compile a regular expression with RE2, which is linear for every pattern and text."""
    if not pattern:
        return None
    import re2

    try:
        if len(pattern) > _MAX_PATTERN:
            raise re2.error("it is too long")
        options = re2.Options()
        options.log_errors = False
        return re2.compile(pattern, options)
    except re2.error:
        raise UsageError(
            "invalid regular expression", help="use the syntax of RE2; look-arounds do not exist"
        ) from None


def _escape_like(text: str) -> str:
    return re.sub("[!%_]", r"!\g<0>", text)


def _find_first_match(text: str, query: Query, pattern: Any) -> int:
    """Return where the first match of any part of the query is; 0 if it cannot be found."""
    positions = []
    folded = fold(text)
    for term in query.wanted:
        match = term.pattern.search(folded)
        if match:
            positions.append(match.start())
    if pattern is not None:
        match = pattern.search(text)
        if match:
            positions.append(match.start())
    return min(positions, default=0)


def _cut_snippet(text: str, position: int) -> str:
    """Return the text around a position on one line."""
    start = max(0, position - _SNIPPET_BEFORE)
    if start:
        # Begin with a whole word, if there is one before the match.
        space = text.find(" ", start, position)
        if space >= 0:
            start = space + 1
    cut = text[start : start + _SNIPPET_LENGTH]
    line = " ".join(cut.split())
    before = "..." if start else ""
    after = "..." if start + _SNIPPET_LENGTH < len(text) else ""
    return f"{before}{line}{after}"
