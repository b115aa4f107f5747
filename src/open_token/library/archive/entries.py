"""Creating, updating and comparing entries of an archive's index."""

import os
from pathlib import Path

import msgspec

from open_token.errors import OpenTokenError
from open_token.library.archive.index import (
    CURRENT,
    EMPTY,
    FAILED,
    GONE,
    Entry,
    ExportFacts,
    read_export_facts,
)
from open_token.library.archive.names import GENERATED_ID
from open_token.library.discovery import Session
from open_token.library.places import compute_stamp, path_to_text
from open_token.pipeline import Receipt
from open_token.sources.source import Source

_DAY = 86400
# Some file systems store times in steps of two seconds.
_SLACK_NS = 2_000_000_000
_EMPTY_ERRORS = ("input.no-events", "input.empty")

update_entry = msgspec.structs.replace


def session_key(session: Session) -> tuple[str, str]:
    """Return the key of a session in the index."""
    return path_to_text(session.path), session.conversation or ""


def create_entry(session: Session, options: str) -> Entry:
    """Create an entry with what is known of a session before it is read."""
    return Entry(
        reader=session.reader,
        state=CURRENT,
        source=path_to_text(session.path),
        conversation=session.conversation,
        options=options,
        source_bytes=session.bytes,
        source_mtime_ns=session.mtime_ns,
        updated=session.modified if session.conversation else None,
    )


def add_export_facts(
    entry: Entry, receipt: Receipt, conversation: ExportFacts | None, now: str | None
) -> Entry:
    """Add what came out of an export; its title is redacted, unlike that of the session."""
    counts: dict[str, int] = {}
    for note in receipt.notes:
        counts[note.code] = counts.get(note.code, 0) + note.count
    entry = update_entry(
        entry,
        id=receipt.conversation_id,
        events=receipt.events,
        bytes=receipt.bytes,
        notes=counts,
        archived_at=now,
        exported_at=now,
    )
    if conversation is None:
        return entry
    return update_entry(
        entry,
        title=conversation.title,
        started_at=conversation.started_at,
        events_hash=receipt.integrity["events_hash"] if receipt.integrity else None,
    )


def add_file_facts(entry: Entry, path: Path) -> Entry:
    """Add what an export that was found in the archive says about itself."""
    facts = read_export_facts(path)
    if facts is None:
        return entry
    conversation, events_hash, exported_at = facts
    return update_entry(
        entry,
        id=conversation.id,
        title=conversation.title,
        started_at=conversation.started_at,
        events_hash=events_hash,
        exported_at=exported_at or entry.exported_at,
    )


def add_related_files(entry: Entry, source: Source, begun: float) -> Entry:
    """Add the other files that were read.

    Without a stamp where one of them changed during the export: then it counts as changed.
    """
    main = source.path
    if main is None or source.is_folder:
        return entry
    paths: set[str] = set()
    for member in source.family:
        if member.path is None or not member.is_read or member.is_folder or member.path == main:
            continue
        path = Path(os.path.normpath(member.path))
        is_near = path.parent == main.parent or path.parent in main.parents
        paths.add(path_to_text(path) if is_near else f"{path_to_text(path.parent)}/")
    if not paths:
        return entry
    related = sorted(paths)
    stamp, newest = compute_stamp(related)
    has_changed = newest >= begun * 1e9 - _SLACK_NS
    return update_entry(entry, related_files=related, related_stamp="" if has_changed else stamp)


def create_failed_entry(
    session: Session, entry: Entry | None, problem: OpenTokenError, options: str
) -> Entry:
    """Create the entry of a source that could not be exported; an earlier export stays."""
    fresh = create_entry(session, options)
    if problem.code in _EMPTY_ERRORS:
        return update_entry(fresh, state=EMPTY)
    if entry is None:
        return update_entry(fresh, state=FAILED, error=problem.code)
    stamp = {"source_bytes": session.bytes, "source_mtime_ns": session.mtime_ns, "options": options}
    return update_entry(entry, state=FAILED, error=problem.code, **stamp)


def update_seen_entry(entry: Entry, session: Session) -> Entry:
    """Update the entry of an unchanged session; others in the same source may have changed."""
    if entry.state == GONE:
        entry = update_entry(entry, state=CURRENT, gone_at=None)
    if entry.conversation is None:
        entry = update_entry(entry, source_bytes=session.bytes, source_mtime_ns=session.mtime_ns)
    return entry


def is_settled(session: Session, entry: Entry) -> bool:
    """Return whether one of several conversations in a source need not be exported again.

    That is so if it has not changed, and was already a day old when it was exported.
    """
    if session.conversation is None or entry.updated != session.modified:
        return False
    return entry.source_mtime_ns / 1e9 - session.modified > _DAY


def has_same_content(old: Entry, fresh: Entry) -> bool:
    """Return whether two exports have the same content."""
    if fresh.events_hash is None or old.events_hash != fresh.events_hash:
        return False
    if (old.id, old.title, old.started_at) != (fresh.id, fresh.title, fresh.started_at):
        return False
    return old.options == fresh.options


def is_other_conversation(old: Entry, fresh: Entry) -> bool:
    """Return whether the source now holds another conversation, or less of it than was archived."""
    if old.id is None:
        return False
    if old.sha256 is not None and old.sha256 == fresh.sha256:
        return False
    # A generated id changes with the content, so it does not tell conversations apart.
    is_generated = GENERATED_ID.fullmatch(old.id) or GENERATED_ID.fullmatch(fresh.id or "")
    if old.id != fresh.id and not is_generated:
        return True
    if fresh.conversation is None and fresh.source_bytes >= old.source_bytes:
        return False
    if old.options != fresh.options or old.events is None:
        return fresh.conversation is None
    return (fresh.events or 0) < old.events
