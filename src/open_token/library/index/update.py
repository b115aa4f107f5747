"""Bring the index up to date: read sessions that are new or have changed."""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from open_token.context import Context
from open_token.errors import InputError, OpenTokenError
from open_token.library.discovery import Session, open_session
from open_token.library.index.database import transaction
from open_token.library.index.events import ROLES, EventReader, IndexedEvent
from open_token.library.index.text import find_pairs, split_words
from open_token.library.places import compute_stamp, path_to_text
from open_token.model.document import Event
from open_token.pipeline import BoundedBuffer, export
from open_token.redaction.ruleset import compute_fingerprint, load_rules
from open_token.sources.source import Source

# Large enough to compress well, small enough that showing one event is cheap and that a session
# that has grown needs little work.
_BLOCK_CHARACTERS = 1 << 16
_COMPRESSION_LEVEL = 6
_MAX_FIELD = 4096
_NEW_SESSION = (
    "INSERT INTO session (path, conversation, reader, session_id, title, cwd, branch, modified, "
    "bytes, mtime_ns, related, related_stamp, options, events, prompts, calls, failures, added, "
    "removed, masked, origin, characters, error) "
    "VALUES (?, ?, ?, '', '', '', '', 0, 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, '', 0, '')"
)


@dataclass
class Progress:
    """How far an update has come."""

    sessions: int = 0
    bytes: int = 0
    failed: int = 0
    removed: int = 0


def describe_options(context: Context) -> str:
    """Return what decides about the redacted text; a session indexed otherwise is read again."""
    rules = load_rules(context.options.redact, context.rule_cache)
    overrides = repr((context.screen.rules, context.screen.allowed, context.policy))
    digest = hashlib.sha256(overrides.encode()).hexdigest()
    return f"{context.options.redact} {compute_fingerprint(rules)} {digest[:16]}"


class IndexUpdater:
    """Reads sessions into the index, each in a transaction of its own."""

    def __init__(self, database: sqlite3.Connection, context: Context) -> None:
        self._database = database
        self._context = context
        self._options = describe_options(context)
        self._shared_source: Source | None = None
        self.progress = Progress()

    def find_due(self, sessions: Iterable[Session]) -> list[Session]:
        """Return the sessions that are new or have changed, oldest first.

        Events get ascending numbers, and a search goes through them from the newest: so the order
        of indexing is the order of results.
        """
        known: dict[tuple[str, str], sqlite3.Row | tuple[object, ...]] = {}
        rows = self._database.execute(
            "SELECT path, conversation, bytes, mtime_ns, modified, options, related, related_stamp "
            "FROM session"
        )
        for path, conversation, *facts in rows:
            known[path, conversation] = tuple(facts)
        due = []
        for session in sessions:
            facts = known.get(_session_key(session))
            if facts is None or self._has_changed(session, facts):
                due.append(session)
        return sorted(due, key=lambda session: (session.modified, str(session.path)))

    def _has_changed(self, session: Session, facts: Iterable[object]) -> bool:
        size, mtime_ns, modified, options, related, stamp = facts
        if options != self._options:
            return True
        if related and compute_stamp(json.loads(str(related)))[0] != stamp:
            return True
        if (session.bytes, session.mtime_ns) == (size, mtime_ns):
            return False
        # A database changes with every session in it; each of them states its own time.
        return session.is_one_of == 1 or session.modified != modified

    def update(self, due: Iterable[Session], report: Callable[[Session], None]) -> None:
        """Index the sessions; `report` is called after each."""
        for session in due:
            try:
                self._index_session(session)
            except OpenTokenError as problem:
                self._record_failure(session, problem.code or "error")
            except (OSError, RecursionError) as problem:
                self._record_failure(session, type(problem).__name__)
            self.progress.sessions += 1
            self.progress.bytes += session.bytes
            report(session)

    def remove_missing(self, sessions: Iterable[Session]) -> None:
        """Remove the sessions that are no longer found."""
        present = {_session_key(session) for session in sessions}
        rows = self._database.execute("SELECT id, path, conversation FROM session").fetchall()
        for session_id, path, conversation in rows:
            if (path, conversation) in present:
                continue
            with transaction(self._database):
                self._delete_blocks(session_id, 0)
                for table in ("usage", "call"):
                    self._database.execute(f"DELETE FROM {table} WHERE session = ?", (session_id,))
                self._database.execute("DELETE FROM session WHERE id = ?", (session_id,))
            self.progress.removed += 1

    def _index_session(self, session: Session) -> None:
        source = self._open_source(session)
        reader = EventReader()
        discard = BoundedBuffer(None, InputError("unlimited"), keep=False)
        # Rows are written while the session is read: a large one is never held in memory.
        with transaction(self._database):
            row_id = self._find_or_create(session)
            writer = _BlockWriter(self._database, row_id, self._delete_blocks)
            observer = _Observer(reader, writer)
            export(source, discard, self._context, session.reader, observer)
            writer.finish()
            reader.finish()
            self._write_facts(session, row_id, reader, source)

    def _open_source(self, session: Session) -> Source:
        """Return the source of a session; conversations of one file share what was read."""
        shared = self._shared_source
        if session.is_one_of > 1 and shared and shared.path == session.path:
            shared.conversation = session.conversation
            return shared
        self._shared_source = open_session(session)
        return self._shared_source

    def _find_or_create(self, session: Session) -> int:
        key = _session_key(session)
        row = self._database.execute(
            "SELECT id FROM session WHERE path = ? AND conversation = ?", key
        ).fetchone()
        if row is not None:
            return int(row[0])
        cursor = self._database.execute(_NEW_SESSION, (*key, session.reader))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _write_facts(
        self, session: Session, row_id: int, reader: EventReader, source: Source
    ) -> None:
        related = _list_related_files(source)
        stamp = compute_stamp(related)[0] if related else ""
        failures = sum(call.has_failed for call in reader.calls)
        self._database.execute(
            "UPDATE session SET reader = ?, session_id = ?, title = ?, cwd = ?, branch = ?, "
            "started = ?, modified = ?, bytes = ?, mtime_ns = ?, related = ?, related_stamp = ?, "
            "options = ?, events = ?, prompts = ?, calls = ?, failures = ?, added = ?, removed = ?, "
            "masked = ?, origin = ?, characters = ?, error = '' WHERE id = ?",
            (
                session.reader,
                session.id,
                reader.title[:_MAX_FIELD],
                reader.cwd[:_MAX_FIELD] or session.cwd or "",
                reader.branch[:_MAX_FIELD],
                reader.started,
                session.modified,
                session.bytes,
                session.mtime_ns,
                json.dumps(related) if related else "",
                stamp,
                self._options,
                reader.events,
                reader.prompts,
                len(reader.calls),
                failures,
                reader.added,
                reader.removed,
                reader.masked,
                reader.origin[:_MAX_FIELD],
                reader.characters,
                row_id,
            ),
        )
        self._database.execute("DELETE FROM usage WHERE session = ?", (row_id,))
        self._database.executemany(
            "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(row_id, *row) for row in reader.usage],
        )
        self._database.execute("DELETE FROM call WHERE session = ?", (row_id,))
        self._database.executemany(
            "INSERT INTO call VALUES (?, ?, ?, ?, ?)",
            [(row_id, call.seq, call.ts, call.tool, call.has_failed) for call in reader.calls],
        )

    def _record_failure(self, session: Session, code: str) -> None:
        """Remember that a session could not be read, until it changes; its old text stays."""
        self.progress.failed += 1
        with transaction(self._database):
            row_id = self._find_or_create(session)
            self._database.execute(
                "UPDATE session SET session_id = ?, bytes = ?, mtime_ns = ?, modified = ?, "
                "options = ?, error = ? WHERE id = ?",
                (
                    session.id,
                    session.bytes,
                    session.mtime_ns,
                    session.modified,
                    self._options,
                    code,
                    row_id,
                ),
            )

    def _delete_blocks(self, session_id: int, first: int) -> None:
        """Delete the blocks of a session from a number on, with their events and words."""
        blocks = self._database.execute(
            "SELECT text, first_event, events FROM block WHERE session = ? AND number >= ?",
            (session_id, first),
        ).fetchall()
        for packed, first_event, count in blocks:
            text = unpack_text(packed)
            ids = (first_event, first_event + count - 1)
            events = self._database.execute(
                "SELECT id, role, tool, start, length FROM event WHERE id BETWEEN ? AND ?", ids
            ).fetchall()
            # A table without content must be told what a row contained to forget it.
            self._database.executemany(
                "INSERT INTO word (word, rowid, text) VALUES ('delete', ?, ?)",
                [
                    (event_id, build_words(text[start : start + length], ROLES[role], tool or ""))
                    for event_id, role, tool, start, length in events
                ],
            )
            self._database.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", ids)
        self._database.execute(
            "DELETE FROM block WHERE session = ? AND number >= ?", (session_id, first)
        )


class _Observer:
    """Passes the events of an export to the index."""

    def __init__(self, reader: EventReader, writer: "_BlockWriter") -> None:
        self.meet = reader.meet
        self._reader = reader
        self._writer = writer

    def take(self, event: Event) -> None:
        """Index one event."""
        self._reader.take(event)
        for row in self._reader.pop_rows():
            self._writer.add(row)


class _BlockWriter:
    """Writes the texts of a session in blocks, and leaves blocks that are the same as before.

    A session mostly grows at its end, so all of its blocks but the last stay.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        session_id: int,
        delete_blocks: Callable[[int, int], None],
    ) -> None:
        self._database = database
        self._session_id = session_id
        self._delete_blocks = delete_blocks
        stored = database.execute(
            "SELECT digest FROM block WHERE session = ? ORDER BY number", (session_id,)
        )
        self._stored_digests = [bytes(digest) for (digest,) in stored]
        self._number = 0
        self._rows: list[IndexedEvent] = []
        self._characters = 0

    def add(self, row: IndexedEvent) -> None:
        """Add one event."""
        self._rows.append(row)
        self._characters += len(row.text)
        if self._characters >= _BLOCK_CHARACTERS:
            self._end_block()

    def finish(self) -> None:
        """Write what is left, and delete blocks that the session no longer has."""
        if self._rows:
            self._end_block()
        if self._number < len(self._stored_digests):
            self._delete_blocks(self._session_id, self._number)

    def _end_block(self) -> None:
        digest = hashlib.sha256(msgspec.msgpack.encode(self._rows)).digest()[:16]
        is_stored = (
            self._number < len(self._stored_digests)
            and self._stored_digests[self._number] == digest
        )
        if not is_stored:
            if self._number < len(self._stored_digests):
                self._delete_blocks(self._session_id, self._number)
                del self._stored_digests[self._number :]
            self._write_block(digest)
        self._number += 1
        self._rows = []
        self._characters = 0

    def _write_block(self, digest: bytes) -> None:
        packed = pack_text("".join(row.text for row in self._rows))
        # The events of a block have consecutive ids, so that they are found without an index.
        last = self._database.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()[0]
        block_id = self._database.execute(
            "INSERT INTO block (session, number, first_event, events, digest, text) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (self._session_id, self._number, last + 1, len(self._rows), digest, packed),
        ).lastrowid
        events = []
        words = []
        start = 0
        for event_id, row in enumerate(self._rows, last + 1):
            events.append(
                (
                    event_id,
                    block_id,
                    row.seq,
                    # Nearly all events have the id that follows from their position.
                    row.id if row.id != format_event_id(row.seq) else None,
                    ROLES.index(row.role),
                    row.tool or None,
                    row.path[:_MAX_FIELD] or None,
                    row.ts,
                    start,
                    len(row.text),
                )
            )
            words.append((event_id, build_words(row.text, row.role, row.tool)))
            start += len(row.text)
        self._database.executemany(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", events
        )
        self._database.executemany("INSERT INTO word (rowid, text) VALUES (?, ?)", words)


def format_event_id(seq: int) -> str:
    """Return the id that an export gives to an event."""
    return f"evt_{seq:06d}"


def pack_text(text: str) -> bytes:
    """Compress the text of a block."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), _COMPRESSION_LEVEL)


def unpack_text(packed: bytes) -> str:
    """Return the text of a block."""
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")


def build_words(text: str, role: str, tool: str) -> str:
    """Return the distinct words of an event, with a marker for each property that is filtered by.

    Markers let the full-text table do the filtering, which is faster than looking at each event.
    """
    words = dict.fromkeys((*split_words(text), *find_pairs(text)))
    words[mark_role(role)] = None
    if tool:
        words[mark_tool(tool)] = None
    return " ".join(words)


def mark_role(role: str) -> str:
    """Return the word that marks events of a role; no text contains it by accident."""
    return f"opentokenrole{role}"


def mark_tool(tool: str) -> str:
    """Return the word that marks calls and results of a tool."""
    return "opentokentool" + "".join(split_words(tool))


def _session_key(session: Session) -> tuple[str, str]:
    return path_to_text(session.path), session.conversation or ""


def _list_related_files(source: Source) -> list[str]:
    """Return the other files that were read: a change in one of them changes the session."""
    main = source.path
    if main is None or source.is_folder:
        return []
    related = set()
    for member in source.family:
        if member.path is None or not member.is_read or member.is_folder or member.path == main:
            continue
        related.add(path_to_text(Path(os.path.normpath(member.path))))
    return sorted(related)


def iter_archived_sessions(folder: Path) -> Iterator[Session]:
    """Yield the sessions of an archive whose source is gone."""
    from open_token.library.archive.index import GONE, Index

    for entry in Index(folder).entries.values():
        if entry.state != GONE or not entry.file:
            continue
        path = folder / entry.file
        try:
            status = path.stat()
        except OSError:
            continue
        yield Session(
            entry.id or path.stem,
            "open_token",
            path,
            entry.updated or status.st_mtime,
            status.st_size,
            title=entry.title,
            mtime_ns=status.st_mtime_ns,
            is_inspected=True,
        )
