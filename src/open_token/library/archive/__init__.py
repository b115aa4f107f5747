"""An archive: every session of this machine exported into a directory.

A session is exported again when it grows, and its export stays when the session is deleted. The
index and the files survive a killed process: an entry is marked as pending before its file is put
in place.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from open_token.context import Context
from open_token.errors import OpenTokenError, OutputError
from open_token.jsontools.timestamps import from_epoch
from open_token.library.archive.continuation import has_all_of
from open_token.library.archive.entries import (
    add_file_facts,
    create_entry,
    create_failed_entry,
    has_same_content,
    is_other_conversation,
    is_settled,
    session_key,
    update_entry,
    update_seen_entry,
)
from open_token.library.archive.exporter import TEMPORARY_PREFIX, FreshExport, SessionExporter
from open_token.library.archive.index import (
    COPY,
    EARLIER,
    EMPTY,
    FAILED,
    GONE,
    INDEX_NAME,
    PENDING,
    Entry,
    Index,
    list_archived_files,
)
from open_token.library.archive.names import (
    choose_day,
    choose_file_name,
    is_archive_name,
    is_opaque_id,
)
from open_token.library.discovery import Session
from open_token.library.jobs import Outcome, limit_jobs, run_jobs
from open_token.library.places import compute_stamp, path_to_text
from open_token.storage.files import (
    PendingFile,
    make_folder,
    remove_file,
    remove_leftovers,
    sync_folder,
    try_lock,
)

__all__ = ["CHANGED", "EARLIER", "FAILED", "GONE", "LOST", "NEW", "Archive", "Change", "Entry"]

NEW, CHANGED, LOST = "new", "changed", "lost"
# While watching, a session rests this many times as long as its export took, so that exports take
# at most some 5 % of the time.
_REST_FACTOR = 20


@dataclass(frozen=True)
class Change:
    """What a pass did with a session: new, changed, gone, failed, lost, or kept an earlier
    version of it."""

    kind: str
    entry: Entry
    problem: OpenTokenError | None = None


class Archive:
    """A directory with an export of each session and an index, locked by one process at a time."""

    def __init__(
        self,
        folder: Path,
        context: Callable[[], Context],
        clock: Callable[[], float],
        *,
        again: bool = False,
        jobs: int = 1,
    ) -> None:
        self._folder = folder
        self._context = context
        self._clock = clock
        self._is_forced = again
        self._jobs = jobs
        options = context().options
        self._options_text = options.as_words()
        self._suffix = "ndjson" if options.mode == "ndjson" else "json"
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}
        self._resting_until: dict[tuple[str, str], float] = {}
        self._exporter = SessionExporter(folder, context(), clock)
        self._unsynced_folders: set[Path] = set()
        self._used_names: set[str] = set()
        self._by_content: dict[object, Entry] = {}
        self._archived_ids: set[str | None] = set()
        self._vanished: set[tuple[str, str]] = set()
        """Sessions that were found and deleted before their turn came."""
        self._kept: list[Change] = []
        """Earlier versions that the export of the current session did not replace."""
        self.counts: Counter[str] = Counter()
        self.entries: list[Entry] = []
        """What the archive had after the last pass."""

    @property
    def context(self) -> Context:
        """The context of its exports."""
        return self._context()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the archive."""
        if not make_folder(self._folder):
            raise OutputError(
                "cannot write to this directory",
                where=str(self._folder),
                help="choose another directory",
            )
        with try_lock(self._folder / ".lock") as is_ours:
            if not is_ours:
                raise OutputError(
                    "this archive is in use by another process",
                    where=str(self._folder),
                    help="wait for it or stop it; one watching process is enough",
                    code="archive.busy",
                )
            yield

    def run(
        self,
        sessions: Iterable[Session],
        *,
        is_all: bool = True,
        begin: Callable[[list[Session]], None] = lambda due: None,
        report: Callable[[Session], None] = lambda session: None,
    ) -> Generator[Change, None, None]:
        """Export what is new or has changed, oldest first, and yield each change when it is done.

        Sessions that do not exist any more are marked as gone, unless `is_all` is false because
        only some sessions are given. `begin` gets the sessions that are due, `report` each one
        that is done.
        """
        self.counts.clear()
        self._exporter = SessionExporter(self._folder, self._context(), self._clock)
        self._vanished.clear()
        oldest_first = sorted(
            sessions, key=lambda session: (session.mtime_ns, str(session.path), session.modified)
        )
        index = Index(self._folder)
        yield from self._reconcile(index)
        due = self._find_due(oldest_first, index)
        begin(due)
        jobs = limit_jobs(self._jobs, (session.bytes for session in due))
        with contextlib.closing(run_jobs(self._exporter, due, jobs)) as outcomes:
            for outcome in outcomes:
                self._kept = []
                change = self._finish_session(outcome, index)
                report(outcome.item)
                yield from self._kept
                if change:
                    yield change
        if is_all:
            yield from self._mark_gone(oldest_first, index)
        for folder in sorted(self._unsynced_folders):
            sync_folder(folder)
        self._unsynced_folders.clear()
        index.write()
        self.entries = list(index.entries.values())

    def _reconcile(self, index: Index) -> Iterator[Change]:
        """Make the index and the files agree, whatever happened to either."""
        files = set(list_archived_files(self._folder))
        remove_leftovers(self._folder, TEMPORARY_PREFIX, f".{INDEX_NAME}.")
        pending = [entry for entry in index.entries.values() if entry.state == PENDING]
        for entry in pending:
            self._finish_pending(entry, index, files)
        replaced = {entry.replaces for entry in pending}
        for entry in list(index.entries.values()):
            if not entry.file or entry.file in files:
                continue
            index.drop(entry)
            has_source = entry.source and os.path.exists(entry.source)
            if entry.file not in replaced and not has_source:
                yield Change(LOST, entry)
        self._drop_duplicates(index)
        self._adopt_unknown_files(index, files)
        self._used_names = {name.casefold() for name in files}
        archived = [entry for entry in index.entries.values() if entry.file]
        self._by_content = {_content_key(entry): entry for entry in archived}
        self._archived_ids = {entry.id for entry in archived}
        index.write()

    def _drop_duplicates(self, index: Index) -> None:
        """Keep one entry per file: the one whose source is known."""
        owners: dict[str | None, Entry] = {}
        for entry in sorted(index.entries.values(), key=lambda entry: bool(entry.source)):
            owners[entry.file] = entry
        for entry in list(index.entries.values()):
            if entry.file and owners[entry.file] is not entry:
                index.drop(entry)

    def _adopt_unknown_files(self, index: Index, files: set[str]) -> None:
        """Enter exports that no entry names, as after a lost index; other files are left alone."""
        for name in sorted(files - {entry.file for entry in index.entries.values()}):
            reader, _, file_name = name.partition("/")
            if not is_archive_name(file_name):
                continue
            entry = Entry(reader=reader, state=GONE, file=name)
            entry = add_file_facts(entry, self._folder / name)
            if entry.id is not None:
                index.entries[entry.key] = entry
                index.is_changed = True

    def _finish_pending(self, entry: Entry, index: Index, files: set[str]) -> None:
        """Complete or undo what a killed process was about to do."""
        index.is_changed = True
        others = {other.file for other in index.entries.values() if other is not entry}
        if entry.file in files and entry.replaces in files - others:
            remove_file(self._folder / str(entry.replaces))
            files.discard(str(entry.replaces))
        file = next((name for name in (entry.file, entry.replaces) if name in files), None)
        if file is None:
            index.drop(entry)
        else:
            entry = update_entry(entry, file=file, replaces=None, events=None, sha256=None)
            index.entries[entry.key] = add_file_facts(entry, self._folder / file)

    def _find_due(self, sessions: Iterable[Session], index: Index) -> list[Session]:
        """Return the sessions that must be exported; the others are counted."""
        due: list[Session] = []
        for session in sessions:
            key = session_key(session)
            entry = index.entries.get(key)
            if entry and not self._is_due(session, entry):
                self.counts[entry.state if entry.state in (EMPTY, COPY) else "unchanged"] += 1
                seen = update_seen_entry(entry, session)
                if seen != entry:
                    index.put(seen)
            elif self._resting_until.get(key, 0.0) > monotonic():
                self.counts["resting"] += 1
            else:
                due.append(session)
        return due

    def _is_due(self, session: Session, entry: Entry) -> bool:
        """Return whether a session must be exported again: by size and time first, then by hash."""
        if entry.options != self._options_text or entry.state == PENDING:
            return True
        if self._is_forced and entry.key not in self._resting_until:
            return True
        stamp = session.bytes, session.mtime_ns
        if entry.state == FAILED:
            return self._failures.get(entry.key) != stamp
        if entry.related_files and compute_stamp(entry.related_files)[0] != entry.related_stamp:
            return True
        if stamp == (entry.source_bytes, entry.source_mtime_ns) or is_settled(session, entry):
            return False
        if entry.sha256 is None or entry.conversation is not None or session.is_folder:
            return True
        # The hash of a database does not cover its write-ahead log, so sizes must be equal.
        if session.bytes != entry.source_bytes:
            return True
        return self._exporter.compute_hash(session) != entry.sha256

    def _finish_session(
        self, outcome: Outcome[Session, FreshExport], index: Index
    ) -> Change | None:
        """Put the export of a session in place; a failure does not stop the others."""
        session = outcome.item
        key = session_key(session)
        self._resting_until[key] = monotonic() + _REST_FACTOR * outcome.seconds
        entry = index.entries.get(key)
        fresh = outcome.result
        if fresh is not None:
            try:
                return self._accept_export(fresh, session, entry, index)
            finally:
                fresh.file.remove()
        problem = outcome.problem
        assert problem is not None
        if isinstance(problem, OutputError):
            raise problem
        if problem.code == "input.missing" and not os.path.exists(session.path):
            self._vanished.add(key)
            return None
        if problem.where is None:
            problem.where = str(session.path)
        return self._record_failure(session, entry, problem, index)

    def _accept_export(
        self, fresh: FreshExport, session: Session, entry: Entry | None, index: Index
    ) -> Change | None:
        has_export = entry is not None and entry.file
        if fresh.copy_of in self._archived_ids and fresh.copy_of and not has_export:
            self._skip_copy(session, entry, index)
            return None
        return self._place_export(fresh.file, fresh.entry, entry, index, session)

    def _skip_copy(self, session: Session, entry: Entry | None, index: Index) -> None:
        """Record a handed-over copy that adds nothing to the archived original."""
        fresh = update_entry(create_entry(session, self._options_text), state=COPY)
        self.counts[COPY] += 1
        if fresh != entry:
            index.put(fresh)

    def _place_export(
        self,
        temporary: PendingFile,
        fresh: Entry,
        old: Entry | None,
        index: Index,
        session: Session,
    ) -> Change | None:
        """Put an export in place; it replaces another only if it has everything that one has."""
        if old and old.file and self._is_to_be_kept(old, fresh, temporary.path):
            self._keep_earlier(old, fresh.exported_at, index)
            old = None
        if old is None or not old.file:
            old = self._find_orphan(fresh)
        if old and has_same_content(old, fresh):
            unchanged = update_entry(
                fresh,
                file=old.file,
                bytes=old.bytes,
                archived_at=old.archived_at or old.exported_at,
                exported_at=old.exported_at,
            )
            index.replace(old, unchanged)
            self.counts["unchanged"] += 1
            return None
        if old and old.archived_at:
            fresh = update_entry(fresh, archived_at=old.archived_at)
        if old and old.file and old.file.endswith(f".{self._suffix}"):
            file = old.file
        else:
            file = self._choose_name(fresh, session)
        replaces = old.file if old and old.file != file else None
        fresh = update_entry(fresh, file=file)
        index.replace(old or fresh, update_entry(fresh, state=PENDING, replaces=replaces))
        temporary.commit(self._folder / file)
        self._unsynced_folders.add((self._folder / file).parent)
        if replaces:
            sync_folder((self._folder / file).parent)
            remove_file(self._folder / replaces)
        index.put(fresh)
        self._archived_ids.add(fresh.id)
        kind = CHANGED if old else NEW
        self.counts[kind] += 1
        return Change(kind, fresh)

    def _is_to_be_kept(self, old: Entry, fresh: Entry, new_file: Path) -> bool:
        """Return whether the source now says something else, or less, than was archived of it."""
        if is_other_conversation(old, fresh):
            return True
        if old.sha256 is not None and old.sha256 == fresh.sha256:
            return False  # the same source, exported with other options or by a newer reader
        if has_same_content(old, fresh) or "max_bytes" in self._options_text:
            return False  # a limit cuts more off the longer a session becomes
        return not has_all_of(self._folder / str(old.file), new_file)

    def _keep_earlier(self, old: Entry, since: str | None, index: Index) -> None:
        earlier = update_entry(old, source=None, conversation=None, state=EARLIER, gone_at=since)
        index.put(earlier)
        self.counts[EARLIER] += 1
        self._kept.append(Change(EARLIER, earlier))

    def _find_orphan(self, fresh: Entry) -> Entry | None:
        """Return the entry of the same events whose source was moved, or forgotten with the index."""
        if not fresh.events_hash:
            return None
        entry = self._by_content.pop(_content_key(fresh), None)
        if entry is None or (entry.source and os.path.exists(entry.source)):
            return None
        if str(entry.file).endswith(f".{self._suffix}"):
            return update_entry(entry, options=self._options_text)
        return entry

    def _choose_name(self, fresh: Entry, session: Session) -> str:
        day = choose_day(str(fresh.id), fresh.started_at, from_epoch(session.modified))

        def is_free(name: str) -> bool:
            return f"{fresh.reader}/{name}".casefold() not in self._used_names

        # Most sessions have no title of their own, and most ids say nothing.
        title = fresh.title
        if not title and is_opaque_id(str(fresh.id)):
            title = fresh.heading
        name = choose_file_name(day, title, str(fresh.id), self._suffix, is_free)
        file = f"{fresh.reader}/{name}"
        self._used_names.add(file.casefold())
        return file

    def _record_failure(
        self, session: Session, entry: Entry | None, problem: OpenTokenError, index: Index
    ) -> Change | None:
        """Record that a source could not be exported; its earlier export stays."""
        self._failures[session_key(session)] = session.bytes, session.mtime_ns
        fresh = create_failed_entry(session, entry, problem, self._options_text)
        if fresh.state == EMPTY:
            self.counts["empty"] += 1
            if entry and entry.file:
                self._keep_earlier(entry, None, index)
            if entry is None or update_seen_entry(entry, session) != fresh:
                index.put(fresh)
            return None
        self.counts[FAILED] += 1
        if fresh != entry:
            index.put(fresh)
        return Change(FAILED, fresh, problem)

    def _mark_gone(self, sessions: list[Session], index: Index) -> Iterator[Change]:
        """Mark what the agent deleted: a whole source, or one conversation of it."""
        keys = {session_key(session) for session in sessions} - self._vanished
        listed = {
            path_to_text(session.path) for session in sessions if session.conversation is not None
        }
        for entry in list(index.entries.values()):
            if entry.source is None or entry.key in keys or entry.state == GONE:
                continue
            if os.path.exists(entry.source) and entry.source not in listed:
                continue
            if entry.file is None:
                index.drop(entry)
                continue
            marked = update_entry(entry, state=GONE, gone_at=self._context().now)
            index.put(marked)
            self.counts[GONE] += 1
            yield Change(GONE, marked)


def _content_key(entry: Entry) -> object:
    """What two exports of the same conversation have in common."""
    return entry.reader, entry.id, entry.events_hash
