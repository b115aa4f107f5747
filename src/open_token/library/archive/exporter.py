"""Exports the sessions of an archive into pending files; works the same in any process."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.handoff.copies import NOTE_TAIL_SIZE, HandoffCopyDetector, may_be_copy
from open_token.library.archive.entries import (
    add_export_facts,
    add_related_files,
    create_entry,
    update_entry,
)
from open_token.library.archive.index import Entry, ExportFacts
from open_token.library.discovery import Session, open_session
from open_token.model.document import Event, Record
from open_token.model.titles import MAX_PROMPTS, choose_title, iter_prompts
from open_token.pipeline import export
from open_token.sources.folder_listings import FolderListings
from open_token.sources.source import Source
from open_token.storage.files import PendingFile, make_folder, pending_file, read_ends

TEMPORARY_PREFIX = ".archive-"
# A database changes all the time and may hold gigabytes: up to this size it is hashed to find out
# whether it changed.
_MAX_HASHED_DATABASE = 1 << 28


@dataclass(frozen=True)
class FreshExport:
    """An export that has no place in the archive yet."""

    file: PendingFile
    entry: Entry
    copy_of: str | None
    """The id of the conversation of which this is a copy made by `handoff`, never continued."""


class _ExportObserver:
    """Keeps what a document says about its conversation; a detector may observe its events."""

    def __init__(self, detector: HandoffCopyDetector | None) -> None:
        self._detector = detector
        self._prompts: list[str] = []
        self.conversation: ExportFacts | None = None

    @property
    def heading(self) -> str | None:
        """What the conversation is called: its title, or its first prompt that says something."""
        explicit = self.conversation.title if self.conversation else None
        return choose_title(explicit, self._prompts, "") or None

    def take(self, event: Event) -> None:
        """Observe an event of the document, which is redacted."""
        if self._detector is not None:
            self._detector.take(event)
        if len(self._prompts) < MAX_PROMPTS:
            self._prompts += iter_prompts([event])

    def meet(self, record: Record) -> None:
        """Keep the facts, as far as they are of the right types: another tool may have set them."""
        with contextlib.suppress(msgspec.ValidationError):
            self.conversation = msgspec.convert(record.conversation, ExportFacts)


class SessionExporter:
    """Exports one session at a time; what conversations of one file share is read once."""

    def __init__(self, folder: Path, context: Context, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._context = context
        self._clock = clock
        self._options_text = context.options.as_words()
        self._hashes: dict[Path, str] = {}
        self._shared_source: Source | None = None
        self._listings = FolderListings()

    def __call__(self, session: Session) -> FreshExport:
        """Export a session into a pending file below the archive."""
        begun = self._clock()
        # Hash first: what is appended during the export must count as a change next time.
        sha256 = None if session.is_folder else self.compute_hash(session)
        source = self._open_source(session)
        folder = self._folder / session.reader
        make_folder(folder)
        detector = None
        if may_be_copy(read_ends(session.path, 0, NOTE_TAIL_SIZE)[1]):
            detector = HandoffCopyDetector()
        observer = _ExportObserver(detector)
        with pending_file(folder, TEMPORARY_PREFIX) as (file, out):
            receipt = export(source, out, self._context, session.reader, observer)
            entry = create_entry(session, self._options_text)
            entry = add_export_facts(entry, receipt, observer.conversation, self._context.now)
            entry = update_entry(entry, heading=observer.heading)
            if session.is_folder:
                sha256 = source.sha256
            entry = add_related_files(update_entry(entry, sha256=sha256), source, begun)
        return FreshExport(file, entry, detector.origin if detector else None)

    def compute_hash(self, session: Session) -> str | None:
        """Return the hash of a source, or None if it has none that says whether it changed."""
        if session.path in self._hashes:
            return self._hashes[session.path]
        try:
            source = open_session(session)
            if source.is_database:
                has_log = session.bytes != source.size
                if has_log or session.bytes > _MAX_HASHED_DATABASE:
                    return None
            self._hashes[session.path] = source.sha256
        except (InputError, OSError):
            return None
        return self._hashes[session.path]

    def _open_source(self, session: Session) -> Source:
        """Return the source of a session; conversations of one file share what was read."""
        shared = self._shared_source
        if session.is_one_of > 1 and shared and shared.path == session.path:
            shared.conversation = session.conversation
            return shared
        self._shared_source = open_session(session, self._listings)
        return self._shared_source
