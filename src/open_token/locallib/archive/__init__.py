"""An archive: every conversation of this machine exported into a folder, again when it grows, kept
when it is gone."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from open_token.context import Context
from open_token.errors import InputError, OpenTokenError, OutputError
from open_token.handoff.copies import TAIL, Ending, may_be_copy
from open_token.locallib.archive.entries import (
    add_export_facts,
    add_file_facts,
    add_related_files,
    create_entry,
    create_failed_entry,
    has_same_content,
    is_other_conversation,
    is_settled,
    session_key,
    update_entry,
    update_seen_entry,
)
from open_token.locallib.archive.index import (
    COPY,
    EARLIER,
    EMPTY,
    FAILED,
    GONE,
    NAME,
    PENDING,
    Entry,
    Index,
    list_archived_files,
)
from open_token.locallib.archive.names import choose_day, choose_file_name, is_archive_name
from open_token.locallib.discovery import Session, open_session
from open_token.locallib.places import compute_stamp, path_to_text
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.storage.files import (
    Unnamed,
    ends_of,
    locked,
    make_folder,
    remove,
    sweep,
    unnamed_file,
)
from open_token.timestamps import from_epoch

__all__ = ["CHANGED", "FAILED", "GONE", "LOST", "NEW", "Archive", "Change", "Entry"]

NEW, CHANGED, LOST = "new", "changed", "lost"
_PART = ".archive-"
_SHARE = 20
"""While watching, a conversation rests this many times as long as its export took: at most some 5 %
of the time."""
_HASHED = 1 << 28
"""A database changes all the time, and may hold gigabytes: up to this size it is hashed before an
export."""


@dataclass(frozen=True)
class Change:
    """Something a pass did or found: new, changed, gone, failed or lost."""

    kind: str
    entry: Entry
    problem: OpenTokenError | None = None


class Archive:
    """A folder with an export of each conversation and an index; one process at a time works on
    it."""

    def __init__(
        self,
        folder: Path,
        context: Callable[[], Context],
        clock: Callable[[], float],
        *,
        again: bool = False,
    ) -> None:
        self._folder, self._context, self._clock, self._again = folder, context, clock, again
        options = context().options
        self._words = options.as_words()
        self._suffix = "ndjson" if options.mode == "ndjson" else "json"
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}
        self._rests: dict[tuple[str, str], float] = {}
        self._hashes: dict[Path, str] = {}
        self._taken: set[str] = set()
        self._kept: dict[object, Entry] = {}
        self._ids: set[str | None] = set()
        self._vanished: set[tuple[str, str]] = set()
        """Those that were found and deleted before their turn came."""
        self._shared: Source | None = None
        self.counts: Counter[str] = Counter()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep others out as long as this lasts."""
        if not make_folder(self._folder):
            raise OutputError(
                "cannot write into this folder",
                where=str(self._folder),
                help="choose another folder",
            )
        with locked(self._folder / ".lock") as is_ours:
            if not is_ours:
                raise OutputError(
                    "another open-token is at work on this archive",
                    where=str(self._folder),
                    help="wait for it or stop it; one that watches is enough",
                    code="archive.busy",
                )
            yield

    def run(self, found: Iterable[Session], *, is_all: bool = True) -> Iterator[Change]:
        """One pass: export what is new or has changed, oldest first; tells each when it is done.

        What is not found any more is marked as gone, unless only some were looked for.
        """
        self.counts.clear()
        self._hashes.clear()
        self._vanished.clear()
        self._shared = None
        found = sorted(
            found, key=lambda session: (session.mtime_ns, str(session.path), session.modified)
        )
        index = Index(self._folder)
        yield from self._reconciled(index)
        for session in found:
            if change := self._one(session, index):
                yield change
        if is_all:
            yield from self._gone(found, index)
        index.write()

    def _reconciled(self, index: Index) -> Iterator[Change]:
        """Let the index and the files agree, whatever became of either."""
        there = set(list_archived_files(self._folder))
        sweep(self._folder, _PART, f".{NAME}.")
        pending = [entry for entry in index.entries.values() if entry.state == PENDING]
        for entry in pending:
            self._finish(entry, index, there)
        replaced = {entry.replaces for entry in pending}
        for entry in [
            entry for entry in index.entries.values() if entry.file and entry.file not in there
        ]:
            index.drop(entry)
            if entry.file not in replaced and not (entry.source and os.path.exists(entry.source)):
                yield Change(LOST, entry)
        owners = {
            entry.file: entry
            for entry in sorted(index.entries.values(), key=lambda entry: bool(entry.source))
        }
        for entry in [
            entry
            for entry in index.entries.values()
            if entry.file and owners[entry.file] is not entry
        ]:
            index.drop(entry)
        for name in sorted(there - {entry.file for entry in index.entries.values()}):
            if not is_archive_name(name.partition("/")[2]):
                continue
            stranger = add_file_facts(
                Entry(reader=name.partition("/")[0], state=GONE, file=name), self._folder / name
            )
            if stranger.id is not None:
                index.entries[stranger.key] = stranger
                index.is_changed = True
        self._taken = {name.casefold() for name in there}
        self._kept = {_content(entry): entry for entry in index.entries.values() if entry.file}
        self._ids = {entry.id for entry in index.entries.values() if entry.file}
        index.write()

    def _finish(self, entry: Entry, index: Index, there: set[str]) -> None:
        """What a killed process was about to do: the file it wrote or would have replaced is of
        this source."""
        index.is_changed = True
        others = {other.file for other in index.entries.values() if other is not entry}
        if entry.file in there and entry.replaces in there - others:
            remove(self._folder / str(entry.replaces))
            there.discard(str(entry.replaces))
        file = next((name for name in (entry.file, entry.replaces) if name in there), None)
        if file is None:
            index.drop(entry)
        else:
            entry = update_entry(entry, file=file, replaces=None, events=None, sha256=None)
            index.entries[entry.key] = add_file_facts(entry, self._folder / file)

    def _one(self, session: Session, index: Index) -> Change | None:
        key = session_key(session)
        entry = index.entries.get(key)
        if entry and not self._is_due(session, entry):
            self.counts[entry.state if entry.state in (EMPTY, COPY) else "unchanged"] += 1
            if (seen := update_seen_entry(entry, session)) != entry:
                index.put(seen)
            return None
        if self._rests.get(key, 0.0) > monotonic():
            self.counts["resting"] += 1
            return None
        started = monotonic()
        change = self._exported(session, entry, index)
        self._rests[key] = monotonic() + _SHARE * (monotonic() - started)
        return change

    def _is_due(self, session: Session, entry: Entry) -> bool:
        """Whether a conversation is to be exported again: by size and time first, then by its
        hash."""
        stamp = session.bytes, session.mtime_ns
        if (
            entry.options != self._words
            or entry.state == PENDING
            or (self._again and entry.key not in self._rests)
        ):
            return True
        if entry.state == FAILED:
            return self._failures.get(entry.key) != stamp
        if entry.beside and compute_stamp(entry.beside)[0] != entry.beside_stamp:
            return True
        if stamp == (entry.source_bytes, entry.source_mtime_ns) or is_settled(session, entry):
            return False
        # The log beside a database is not in its hash.
        can_tell = (
            session.bytes == entry.source_bytes
            and entry.conversation is None
            and not session.is_folder
        )
        return not (can_tell and entry.sha256 is not None and self._hash(session) == entry.sha256)

    def _hash(self, session: Session) -> str | None:
        if session.path not in self._hashes:
            try:
                source = open_session(session)
                if source.is_database and (session.bytes != source.size or session.bytes > _HASHED):
                    return None
                self._hashes[session.path] = source.sha256
            except (InputError, OSError):
                return None
        return self._hashes[session.path]

    def _exported(self, session: Session, entry: Entry | None, index: Index) -> Change | None:
        """Export one conversation; what goes wrong with it is told and does not stop the others."""
        try:
            return self._written(session, entry, index)
        except OutputError:
            raise
        except OpenTokenError as problem:
            if problem.code == "input.missing" and not os.path.exists(session.path):
                self._vanished.add(session_key(session))
                return None
            return self._refused(session, entry, problem, index)
        except Exception as problem:
            what = f"something went wrong inside open-token ({type(problem).__name__})"
            unknown = OpenTokenError(
                what, where=str(session.path), help="export it alone with OPEN_TOKEN_DEBUG=1"
            )
            return self._refused(session, entry, unknown, index)

    def _written(self, session: Session, entry: Entry | None, index: Index) -> Change | None:
        begun = self._clock()
        # The hash comes first: what is added while the export is made must be seen as a change next
        # time.
        sha256 = None if session.is_folder else self._hash(session)
        source, context = self._source(session), self._context()
        folder = self._folder / session.reader
        make_folder(folder)
        ending = Ending() if may_be_copy(ends_of(session.path, 0, TAIL)[1]) else None
        with unnamed_file(folder, _PART) as made:
            receipt = export(source, made.out, context, session.reader, ending)
            if ending and ending.origin in self._ids and not (entry and entry.file):
                self._passed_over(session, entry, index)
                return None
            made.out.flush()
            fresh = add_export_facts(
                create_entry(session, self._words), receipt, made.path, context.now
            )
            sha256 = source.sha256 if session.is_folder else sha256
            fresh = add_related_files(update_entry(fresh, sha256=sha256), source, begun)
            return self._placed(made, fresh, entry, index, session)

    def _passed_over(self, session: Session, entry: Entry | None, index: Index) -> None:
        """Note a copy that says no more than the conversation it was made of, which is archived."""
        fresh = update_entry(create_entry(session, self._words), state=COPY)
        self.counts[COPY] += 1
        if fresh != entry:
            index.put(fresh)

    def _source(self, session: Session) -> Source:
        """The source of a session; conversations of one file come one after another, and share what
        was read of it."""
        if session.is_one_of > 1 and self._shared and self._shared.path == session.path:
            self._shared.conversation = session.conversation
            return self._shared
        self._shared = open_session(session)
        return self._shared

    def _placed(
        self, made: Unnamed, fresh: Entry, old: Entry | None, index: Index, session: Session
    ) -> Change | None:
        """Put an export where it belongs; nothing that is archived is lost to what came after
        it."""
        if old and old.file and is_other_conversation(old, fresh):
            kept = update_entry(
                old, source=None, conversation=None, state=EARLIER, gone_at=fresh.exported_at
            )
            index.put(kept)
            old = None
        old = old if old and old.file else self._orphan(fresh)
        if old and has_same_content(old, fresh):
            times = {
                "archived_at": old.archived_at or old.exported_at,
                "exported_at": old.exported_at,
            }
            index.take(old, update_entry(fresh, file=old.file, bytes=old.bytes, **times))
            self.counts["unchanged"] += 1
            return None
        file = (
            old.file
            if old and old.file and old.file.endswith(f".{self._suffix}")
            else self._name(fresh, session)
        )
        replaces = old.file if old and old.file != file else None
        fresh = update_entry(
            fresh, file=file, archived_at=(old and old.archived_at) or fresh.archived_at
        )
        index.take(old or fresh, update_entry(fresh, state=PENDING, replaces=replaces))
        made.become(self._folder / str(file))
        if replaces:
            remove(self._folder / replaces)
        index.put(fresh)
        self._ids.add(fresh.id)
        kind = CHANGED if old else NEW
        self.counts[kind] += 1
        return Change(kind, fresh)

    def _orphan(self, fresh: Entry) -> Entry | None:
        """An export of the same events whose source was moved, or is not known as the index was
        lost."""
        entry = self._kept.pop(_content(fresh), None) if fresh.events_hash else None
        if entry is None or (entry.source and os.path.exists(entry.source)):
            return None
        return update_entry(
            entry,
            options=self._words if str(entry.file).endswith(f".{self._suffix}") else entry.options,
        )

    def _name(self, fresh: Entry, session: Session) -> str:
        day = choose_day(str(fresh.id), fresh.started_at, from_epoch(session.modified))

        def is_free(name: str) -> bool:
            return f"{fresh.reader}/{name}".casefold() not in self._taken

        name = choose_file_name(day, fresh.title, str(fresh.id), self._suffix, is_free)
        file = f"{fresh.reader}/{name}"
        self._taken.add(file.casefold())
        return file

    def _refused(
        self, session: Session, entry: Entry | None, problem: OpenTokenError, index: Index
    ) -> Change | None:
        """Note that a source could not be exported; what is archived of it stays."""
        self._failures[session_key(session)] = session.bytes, session.mtime_ns
        fresh = create_failed_entry(session, entry, problem, self._words)
        if fresh.state == EMPTY:
            self.counts["empty"] += 1
            if entry and entry.file:
                index.put(update_entry(entry, source=None, conversation=None, state=EARLIER))
            if entry is None or update_seen_entry(entry, session) != fresh:
                index.put(fresh)
            return None
        self.counts[FAILED] += 1
        if fresh != entry:
            index.put(fresh)
        return Change(FAILED, fresh, problem)

    def _gone(self, found: list[Session], index: Index) -> Iterator[Change]:
        """Mark what its runtime deleted: a whole source, or a conversation in one that is still
        there."""
        keys = {session_key(session) for session in found} - self._vanished
        listed = {
            path_to_text(session.path) for session in found if session.conversation is not None
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


def _content(entry: Entry) -> object:
    """What two exports of the same conversation have in common."""
    return entry.reader, entry.id, entry.events_hash
