"""Bring the index up to date: read sessions that are new or have changed."""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from open_token.context import Context
from open_token.errors import OutputError
from open_token.library.discovery import Session
from open_token.library.index.blocks import SPOOL_PREFIX, Block, build_words, unpack_text
from open_token.library.index.database import transaction
from open_token.library.index.events import ROLES
from open_token.library.index.reading import DueSession, ReadSession, SessionReader
from open_token.library.jobs import run_jobs
from open_token.library.places import compute_stamp, path_to_text
from open_token.redaction.ruleset import compute_fingerprint, load_rules
from open_token.storage.files import remove_leftovers

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

    def __init__(self, database: sqlite3.Connection, folder: Path, context: Context) -> None:
        self._database = database
        self._folder = folder
        self._context = context
        self._options = describe_options(context)
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

    def update(self, due: Iterable[Session], jobs: int, report: Callable[[Session], None]) -> None:
        """Index the sessions, read in up to `jobs` processes; `report` is called after each."""
        remove_leftovers(self._folder, SPOOL_PREFIX)
        reader = SessionReader(self._folder, self._context)
        items = (DueSession(session, self._list_digests(session)) for session in due)
        with contextlib.closing(run_jobs(reader, items, jobs)) as outcomes:
            for outcome in outcomes:
                session = outcome.item.session
                if outcome.result is not None:
                    self._store(session, outcome.result)
                elif outcome.problem is not None:
                    if isinstance(outcome.problem, OutputError):
                        raise outcome.problem
                    self._record_failure(session, outcome.problem.code or "error")
                self.progress.sessions += 1
                self.progress.bytes += session.bytes
                report(session)

    def _list_digests(self, session: Session) -> list[bytes]:
        """Return the digests of the blocks that are stored of a session."""
        rows = self._database.execute(
            "SELECT digest FROM block JOIN session ON session.id = block.session "
            "WHERE path = ? AND conversation = ? ORDER BY number",
            _session_key(session),
        )
        return [bytes(digest) for (digest,) in rows]

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

    def _store(self, session: Session, read: ReadSession) -> None:
        try:
            with transaction(self._database):
                row_id = self._find_or_create(session)
                self._delete_blocks(row_id, read.kept_blocks)
                for number, block in enumerate(read.blocks, read.kept_blocks):
                    self._write_block(row_id, number, block)
                self._write_facts(session, row_id, read)
        finally:
            read.blocks.remove()

    def _write_block(self, row_id: int, number: int, block: Block) -> None:
        # The events of a block have consecutive ids, so that they are found without an index.
        last = self._database.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()[0]
        block_id = self._database.execute(
            "INSERT INTO block (session, number, first_event, events, digest, text) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (row_id, number, last + 1, len(block.events), block.digest, block.text),
        ).lastrowid
        self._database.executemany(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (event_id, block_id, *msgspec.structs.astuple(event))
                for event_id, event in enumerate(block.events, last + 1)
            ],
        )
        self._database.executemany(
            "INSERT INTO word (rowid, text) VALUES (?, ?)", enumerate(block.words, last + 1)
        )

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

    def _write_facts(self, session: Session, row_id: int, read: ReadSession) -> None:
        failures = sum(call.has_failed for call in read.calls)
        self._database.execute(
            "UPDATE session SET reader = ?, session_id = ?, title = ?, cwd = ?, branch = ?, "
            "started = ?, modified = ?, bytes = ?, mtime_ns = ?, related = ?, related_stamp = ?, "
            "options = ?, events = ?, prompts = ?, calls = ?, failures = ?, added = ?, removed = ?, "
            "masked = ?, origin = ?, characters = ?, error = '' WHERE id = ?",
            (
                session.reader,
                session.id,
                read.title,
                read.cwd,
                read.branch,
                read.started,
                session.modified,
                session.bytes,
                session.mtime_ns,
                json.dumps(read.related) if read.related else "",
                read.related_stamp,
                self._options,
                read.events,
                read.prompts,
                len(read.calls),
                failures,
                read.added,
                read.removed,
                read.masked,
                read.origin,
                read.characters,
                row_id,
            ),
        )
        self._database.execute("DELETE FROM usage WHERE session = ?", (row_id,))
        self._database.executemany(
            "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(row_id, *row) for row in read.usage],
        )
        self._database.execute("DELETE FROM call WHERE session = ?", (row_id,))
        self._database.executemany(
            "INSERT INTO call VALUES (?, ?, ?, ?, ?)",
            [(row_id, call.seq, call.ts, call.tool, call.has_failed) for call in read.calls],
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


def _session_key(session: Session) -> tuple[str, str]:
    return path_to_text(session.path), session.conversation or ""


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
