"""Read one session for the index: its blocks, counts and usage; works the same in any process."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.library.discovery import Session, open_session
from open_token.library.index.blocks import (
    Block,
    BlockSpool,
    SpooledBlocks,
    StoredEvent,
    build_words,
    format_event_id,
    pack_text,
)
from open_token.library.index.events import ROLES, CallRow, EventReader, IndexedEvent, UsageRow
from open_token.library.places import compute_stamp, path_to_text
from open_token.model.document import Event
from open_token.pipeline import BoundedBuffer, export
from open_token.sources.folder_listings import FolderListings
from open_token.sources.source import Source

MAX_FIELD = 4096
# Large enough to compress well, small enough that showing one event is cheap and that a session
# that has grown needs little work.
_BLOCK_CHARACTERS = 1 << 16


@dataclass(frozen=True)
class DueSession:
    """A session to read, with the digests of the blocks that the index has of it."""

    session: Session
    digests: list[bytes]


@dataclass(frozen=True)
class ReadSession:
    """What was read of a session."""

    kept_blocks: int
    """How many of the stored blocks, from the first, are as before."""
    blocks: SpooledBlocks
    """The blocks after those."""
    title: str
    cwd: str
    branch: str
    started: float | None
    events: int
    prompts: int
    added: int
    removed: int
    masked: int
    origin: str
    characters: int
    usage: list[UsageRow]
    calls: list[CallRow]
    related: list[str]
    """The other files that were read."""
    related_stamp: str


class SessionReader:
    """Reads one session at a time; what conversations of one file share is read once."""

    def __init__(self, folder: Path, context: Context) -> None:
        self._folder = folder
        self._context = context
        self._shared_source: Source | None = None
        self._listings = FolderListings()

    def __call__(self, due: DueSession) -> ReadSession:
        """Read a session."""
        try:
            return self._read(due)
        except (OSError, RecursionError) as problem:
            raise InputError("cannot read this session", code=type(problem).__name__) from None

    def _read(self, due: DueSession) -> ReadSession:
        session = due.session
        source = self._open_source(session)
        events = EventReader()
        discard = BoundedBuffer(None, InputError("unlimited"), keep=False)
        with BlockSpool(self._folder) as spool:
            builder = _BlockBuilder(spool, due.digests)
            export(source, discard, self._context, session.reader, _Observer(events, builder))
            builder.finish()
            events.finish()
        related = _list_related_files(source)
        return ReadSession(
            kept_blocks=builder.kept,
            blocks=spool.finish(),
            title=events.title[:MAX_FIELD],
            cwd=events.cwd[:MAX_FIELD] or session.cwd or "",
            branch=events.branch[:MAX_FIELD],
            started=events.started,
            events=events.events,
            prompts=events.prompts,
            added=events.added,
            removed=events.removed,
            masked=events.masked,
            origin=events.origin[:MAX_FIELD],
            characters=events.characters,
            usage=events.usage,
            calls=events.calls,
            related=related,
            related_stamp=compute_stamp(related)[0] if related else "",
        )

    def _open_source(self, session: Session) -> Source:
        """Return the source of a session; conversations of one file share what was read."""
        shared = self._shared_source
        if session.is_one_of > 1 and shared and shared.path == session.path:
            shared.conversation = session.conversation
            return shared
        self._shared_source = open_session(session, self._listings)
        return self._shared_source


class _Observer:
    """Passes the events of an export to the blocks."""

    def __init__(self, reader: EventReader, builder: "_BlockBuilder") -> None:
        self.meet = reader.meet
        self._reader = reader
        self._builder = builder

    def take(self, event: Event) -> None:
        """Index one event."""
        self._reader.take(event)
        for row in self._reader.pop_rows():
            self._builder.add(row)


class _BlockBuilder:
    """Puts the texts of a session in blocks, and skips stored blocks that are the same as before.

    A session mostly grows at its end, so all of its blocks but the last stay.
    """

    def __init__(self, spool: BlockSpool, stored_digests: list[bytes]) -> None:
        self._spool = spool
        self._stored_digests = stored_digests
        self._has_changed = False
        self._rows: list[IndexedEvent] = []
        self._characters = 0
        self.kept = 0

    def add(self, row: IndexedEvent) -> None:
        """Add one event."""
        self._rows.append(row)
        self._characters += len(row.text)
        if self._characters >= _BLOCK_CHARACTERS:
            self._end_block()

    def finish(self) -> None:
        """Build what is left."""
        if self._rows:
            self._end_block()

    def _end_block(self) -> None:
        digest = hashlib.sha256(msgspec.msgpack.encode(self._rows)).digest()[:16]
        if self._stored_digests[self.kept : self.kept + 1] != [digest]:
            self._has_changed = True
        if self._has_changed:
            self._spool.add(_build_block(digest, self._rows))
        else:
            self.kept += 1
        self._rows = []
        self._characters = 0


def _build_block(digest: bytes, rows: list[IndexedEvent]) -> Block:
    events = []
    words = []
    start = 0
    for row in rows:
        events.append(
            StoredEvent(
                seq=row.seq,
                id=row.id if row.id != format_event_id(row.seq) else None,
                role=ROLES.index(row.role),
                tool=row.tool or None,
                path=row.path[:MAX_FIELD] or None,
                ts=row.ts,
                start=start,
                length=len(row.text),
            )
        )
        words.append(build_words(row.text, row.role, row.tool))
        start += len(row.text)
    return Block(digest, pack_text("".join(row.text for row in rows)), events, words)


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
