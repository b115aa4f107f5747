"""What is on this machine: the conversations in every reader's usual places, newest first."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from open_token import registry
from open_token.errors import InputError
from open_token.locallib.discovery_cache import Memory, Row, Seen
from open_token.locallib.file_ends import closing, opening
from open_token.locallib.places import (
    Facts,
    Place,
    facts_of,
    id_in,
    matching,
    name_in,
    name_of,
    places,
    stamp_of,
)
from open_token.model import Found
from open_token.sources.source import Source
from open_token.storage.files import Folders

__all__ = [
    "Discovery",
    "Session",
    "alone",
    "by_id",
    "in_folder",
    "name_of",
    "opening",
    "source_of",
    "stamp_of",
]

_HEADS, _TAIL = (1 << 14, 1 << 16, 1 << 18), 1 << 14
# Codex 0.169 writes instructions and tools of some 90 kB before the first words typed.
_WHOLE = 1 << 23
"""A file of several conversations that has to be read to its end for a list of them is read up to
this size."""
_TITLE, _ID, _PATH = 160, 200, 4096
_FILES_IN_A_FOLDER = 5000
_SUFFIXES = (
    ".json", ".jsonl", ".ndjson", ".gz", ".txt", ".md", ".yaml", ".yml", ".har", ".traj", ".eval", ".zip", ".db",
    ".sqlite", ".vscdb",
)  # fmt: skip
_NOT_WALKED = {".git", "node_modules", ".venv", "__pycache__"}
_ODD = (AttributeError, LookupError, TypeError, ValueError, RecursionError, InputError)
"""What a file that is not as its reader expects may lead to: it must not hide all the others."""


@dataclass(frozen=True)
class Session:
    """A conversation that was found: where it is, whose it is, how new, and what the ends of its
    file tell."""

    id: str
    reader: str
    path: Path
    modified: float
    bytes: int
    cwd: str | None = None
    title: str | None = None
    words: str | None = None
    """The first words typed, where the title is another."""
    conversation: str | None = None
    """Its id in a file that may hold several."""
    is_one_of: int = 1
    """How many conversations the file holds."""
    messages: int | None = None
    mtime_ns: int = 0
    """The last change of the file, where `modified` is that of the conversation."""
    is_folder: bool = False
    cwd_sha256: str | None = None
    """The hash of its folder, where a runtime tells no more of it."""
    is_seen: bool = False


class Discovery:
    """A search of this machine, and what it remembers from the last one."""

    def __init__(
        self, env: Mapping[str, str], home: Path, cwd: Path | None = None, cache: Path | None = None
    ) -> None:
        self._env, self._home, self._cwd = env, home, cwd
        self._memory = Memory(cache)
        self._names: set[str] = set()

    @classmethod
    def of(cls, env: Mapping[str, str], home: Path, cwd: Path | None = None) -> "Discovery":
        """With the memory in this user's cache folder."""
        return cls(env, home, cwd, Folders.of(env).cache)

    def sessions(self, *, thorough: bool = False) -> list[Session]:
        """Every conversation in the usual places, newest first; looks only into files that may hold
        several.

        A large file that has to be read to its end for a list of its conversations is one row,
        unless it is thorough."""
        found: dict[object, tuple[Session, list[str]]] = {}
        for name in registry.READERS:
            for place in places(
                registry.load_reader(name).definition.places, self._env, self._home, self._cwd
            ):
                for path, facts in matching(place):
                    _, rivals = found.setdefault(
                        facts.key, (_session(name, path, facts, place), [])
                    )
                    if name not in rivals and not _is_part(name, path):
                        rivals.append(name)
        most = None if thorough else _WHOLE
        listed = [
            row
            for session, rivals in found.values()
            if rivals
            for row in self._rows(session, rivals, most)
        ]
        self._names = {name_of(session.path) for session in listed}
        return sorted(listed, key=lambda s: (-s.modified, str(s.path)))

    def _rows(self, session: Session, rivals: list[str], most: int | None) -> list[Session]:
        """The conversations of one file; the content decides where several readers look at the same
        place."""
        if rivals != [session.reader]:
            session = replace(
                session, reader=rivals[0] if len(rivals) == 1 else self._claimant(session, rivals)
            )
        if not registry.load_reader(session.reader).definition.holds_several:
            return [session]
        seen = self._recalled(session)
        if seen is None:
            rows = _several(session, most)
            if rows is None:
                return [session]
            seen = self._kept(session, rows)
        # Where no times are told, what comes later in a file is newer.
        return [_told(session, row, len(seen.rows)) for row in reversed(seen.rows)]

    def _claimant(self, session: Session, rivals: list[str]) -> str:
        seen = self._memory.recall(name_of(session.path), session.bytes, session.mtime_ns)
        if seen and seen.reader in rivals:
            return seen.reader
        source = source_of(session)
        for name in rivals:
            with contextlib.suppress(*_ODD):
                if registry.load_reader(name).sniff(source):
                    return name
        return rivals[0]

    def look(self, session: Session) -> Session:
        """The same session with what the ends of its file tell: its own id, its folder, its
        title."""
        if session.is_seen:
            return session
        seen = self._recalled(session) or self._kept(session, [_row(_peeked(session))])
        return _told(session, seen.rows[0]) if seen.rows else replace(session, is_seen=True)

    def _recalled(self, session: Session) -> Seen | None:
        seen = self._memory.recall(name_of(session.path), session.bytes, session.mtime_ns)
        return seen if seen and seen.reader == session.reader else None

    def _kept(self, session: Session, rows: list[Row]) -> Seen:
        seen = Seen(session.bytes, session.mtime_ns, session.reader, rows)
        self._memory.keep(name_of(session.path), seen)
        return seen

    def held_in(self, found: Iterable[Session], folder: Path) -> Iterator[Session]:
        """Those that were held in a folder, in their order; looks only at as many as are asked
        for."""
        wanted = _real(str(folder))
        hashes = {hashlib.sha256(os.fsencode(path)).hexdigest() for path in (str(folder), wanted)}
        known: dict[str, bool] = {}
        for session in found:
            seen = self.look(session)
            if seen.cwd and seen.cwd not in known:
                known[seen.cwd] = "\0" not in seen.cwd and _real(seen.cwd) == wanted
            if known[seen.cwd] if seen.cwd else seen.cwd_sha256 in hashes:
                yield seen

    def remember(self) -> None:
        """Keep what was seen for the next search."""
        self._memory.save(self._names)


def _session(name: str, path: Path, facts: Facts, place: Place) -> Session:
    return Session(
        name_in(path, place),
        name,
        path,
        facts.mtime_ns / 1e9,
        facts.size,
        mtime_ns=facts.mtime_ns,
        is_folder=place.pattern.endswith("/"),
        cwd=str(place.root) if place.is_here else None,
    )


def _real(folder: str) -> str:
    return os.path.normcase(os.path.realpath(folder))


def _is_part(name: str, path: Path) -> bool:
    """Whether a file belongs to a conversation in another file, by the PARTS that a reader may
    name."""
    return any(path.match(pattern) for pattern in registry.load_reader(name).definition.part_files)


def source_of(session: Session) -> Source:
    """The source of a session, with the conversation chosen where its file holds several."""
    source = Source.of_folder(session.path) if session.is_folder else Source.of(session.path)
    if session.is_one_of > 1:
        source.conversation = session.conversation
    return source


def _peeked(session: Session) -> dict[str, Any]:
    """What a reader makes of the first records, and of a title that was given later."""
    reader = registry.load_reader(session.reader)
    told: dict[str, Any] = {}
    if not reader.can_peek or session.is_folder:
        return told
    for budget in _HEADS:
        records = opening(session.path, budget)
        with contextlib.suppress(*_ODD):
            told = reader.peek(records)
        if _text(told.get("title")) or session.bytes < budget:
            break
    if name := reader.companion_file(session.path.name):
        with contextlib.suppress(*_ODD):
            told = {**told, **reader.peek(opening(session.path.with_name(name), _HEADS[0]))}
    if reader.can_peek_tail:
        with contextlib.suppress(*_ODD):
            told = {
                **told,
                **reader.peek_tail(
                    records if session.bytes < budget else closing(session.path, _TAIL)
                ),
            }
    return told


def _several(session: Session, most: int | None) -> list[Row] | None:
    """The conversations in a file that may hold several; None when that cannot be told now."""
    told = _peeked(session)
    if _text(told.get("id")):
        return [] if told.get("is_part") else [_row(told)]
    try:
        source = source_of(session)
        is_cheap = session.is_folder or source.is_database or source.is_zip
        if most is not None and session.bytes > most and not is_cheap:
            return None
        reader = registry.load_reader(session.reader)
        if not reader.sniff(source):
            return []
        found = [_listed(item) for item in reader.list_conversations(source)]
        # A file of a format of which only databases and archives hold several is one conversation.
        return found or ([] if is_cheap else [_row(told)])
    except _ODD:
        return None


def _listed(item: Found) -> Row:
    row = _row({"id": item.id, "cwd": item.cwd, "title": item.title})
    when = _epoch(item.updated_at) or _epoch(item.started_at)
    return Row(row.id, row.cwd, row.title, None, item.id, when, item.messages)


def _epoch(moment: str | None) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(moment).timestamp() if moment else None
    return None


def _row(told: dict[str, Any]) -> Row:
    title, words = (
        " ".join((_text(told.get(name)) or "").split())[:_TITLE] for name in ("title", "words")
    )
    cwd, own, hashed = (_text(told.get(name)) for name in ("cwd", "id", "cwd_sha256"))
    return Row(
        own if own and len(own) <= _ID else None,
        cwd if cwd and len(cwd) <= _PATH else None,
        title or words or None,
        words if words and words != title else None,
        cwd_sha256=hashed if hashed and len(hashed) == 64 else None,
    )


def _told(session: Session, row: Row, count: int = 1) -> Session:
    own = row.id
    if own and own.isdecimal() and len(own) < 7:
        own = f"{session.id}#{own}"  # a number in its file, not a name
    return replace(
        session,
        id=own or session.id,
        cwd=row.cwd or session.cwd,
        cwd_sha256=row.cwd_sha256,
        title=row.title,
        words=row.words,
        conversation=row.conversation,
        is_one_of=count,
        modified=session.modified if row.modified is None else row.modified,
        messages=row.messages,
        is_seen=True,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def by_id(found: list[Session], wanted: str) -> list[Session]:
    """The sessions whose id, or the id in whose file name, or whose file name starts with the given
    one."""
    wanted = wanted.lower()
    names = [(session, _names(session)) for session in found]
    matching = [
        session for session, known in names if any(name.startswith(wanted) for name in known)
    ]
    exact = [session for session, known in names if wanted in known]
    return exact or matching


def _names(session: Session) -> tuple[str, ...]:
    if session.is_one_of > 1:
        return (session.id.lower(),)
    return session.id.lower(), id_in(session.path.stem).lower(), session.path.stem.lower()


def with_words(found: Iterable[Session], text: str) -> Iterator[Session]:
    """Those in whose title, first words, id or folder every word stands."""
    words = text.lower().split()
    for session in found:
        told = (
            f"{session.title or ''} {session.words or ''} {session.id} {session.cwd or ''}".lower()
        )
        if all(word in told for word in words):
            yield session


def uncut(text: str) -> str:
    """A title without the word at which it may have been cut: a secret that is cut is known no
    more."""
    return text.rpartition(" ")[0] if len(text) >= _TITLE else text


def in_folder(folder: Path) -> Iterator[Session]:
    """The conversations that lie in or below a folder, newest first; reads only as many files as
    are asked for."""
    files = islice(
        (path for path in _below(folder) if path.suffix in _SUFFIXES), _FILES_IN_A_FOLDER
    )
    found = [
        _session("", path, facts, Place(folder, "*")) for path in files if (facts := facts_of(path))
    ]
    for session in sorted(found, key=lambda s: (-s.modified, str(s.path))):
        if claimed := _claimed(session):
            yield claimed


def alone(path: Path) -> Session | None:
    """The conversation in a file that may lie anywhere; None when no reader knows it, or it is a
    part of another."""
    facts = facts_of(path)
    return _claimed(_session("", path, facts, Place(path.parent, "*"))) if facts else None


def _claimed(session: Session) -> Session | None:
    with contextlib.suppress(InputError):
        name = registry.detect_format(Source.of(session.path))
        if not _is_part(name, session.path):
            return replace(session, reader=name)
    return None


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_WALKED)
        yield from (Path(place, name) for name in sorted(names))
