"""Find the sessions on this machine: what lies in the usual places of every agent, newest first."""

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
from open_token.library.discovery_cache import CachedFile, CachedRow, DiscoveryCache
from open_token.library.file_ends import read_first_records, read_last_records
from open_token.library.places import (
    FileFacts,
    Place,
    extract_session_id,
    extract_session_name,
    find_fixed_folder,
    find_matching,
    path_to_text,
    read_file_facts,
    resolve_places,
)
from open_token.model.document import Found
from open_token.model.titles import normalize_title
from open_token.sources.folder_listings import FolderListings
from open_token.sources.source import Source
from open_token.storage.files import Folders

# How many bytes of a file are read for its title, one after the other until there is one. Codex
# 0.169 writes instructions and tools of some 90 kB before the first prompt; a resumed session of
# Claude Code begins with megabytes of snapshots.
_HEAD_SIZES = (1 << 14, 1 << 16, 1 << 18, 1 << 22)
_TAIL_SIZE = 1 << 14
# A file that must be read to its end to list its conversations is read up to this size.
_MAX_LISTED_SIZE = 1 << 23
_MAX_TITLE = 160
_MAX_ID = 200
_MAX_PATH = 4096
_MAX_FILES_IN_A_FOLDER = 5000
_SUFFIXES = (
    ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".txt", ".md", ".yaml", ".yml", ".har", ".traj", ".eval", ".zip", ".db",
    ".sqlite", ".vscdb",
)  # fmt: skip
_IGNORED_FOLDERS = {".git", "node_modules", ".venv", "__pycache__"}
# What a reader may raise for a file that is not what it expects: one such file must not hide the
# others.
_READER_ERRORS = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    InputError,
)


@dataclass(frozen=True)
class Session:
    """A session that was found: where it is, whose it is, and what the ends of its file say."""

    id: str
    reader: str
    path: Path
    modified: float
    bytes: int
    cwd: str | None = None
    title: str | None = None
    words: str | None = None
    """The start of the first prompt, if the title is something else."""
    conversation: str | None = None
    """Its id in a file that may hold several."""
    is_one_of: int = 1
    """How many conversations the file holds."""
    messages: int | None = None
    mtime_ns: int = 0
    """The last change of the file; `modified` is that of the conversation."""
    is_folder: bool = False
    cwd_sha256: str | None = None
    """The hash of its working directory, where the agent stores nothing else about it."""
    is_inspected: bool = False


@dataclass(frozen=True)
class UnreadableFiles:
    """Files with sessions of an agent that no reader can read."""

    agent: str
    title: str
    folder: Path
    files: int
    bytes: int
    reason: str


class Discovery:
    """A search of this machine, with the cache of the last one."""

    def __init__(
        self,
        env: Mapping[str, str],
        home: Path,
        cwd: Path | None = None,
        cache: Path | None = None,
    ) -> None:
        self._env = env
        self._home = home
        self._cwd = cwd
        self._cache = DiscoveryCache(cache)
        self._listed_files: set[str] = set()

    @classmethod
    def of(cls, env: Mapping[str, str], home: Path, cwd: Path | None = None) -> "Discovery":
        """Create one with its cache in this user's cache directory."""
        return cls(env, home, cwd, Folders.of(env).cache)

    def sessions(self, *, thorough: bool = False) -> list[Session]:
        """Return every session in the usual places, newest first.

        Only files that may hold several conversations are opened. A large one that would have to be
        read to its end is listed as one session, unless the search is thorough.
        """
        claims = self._find_files()
        max_size = None if thorough else _MAX_LISTED_SIZE
        listed: list[Session] = []
        for session, readers in claims:
            if readers:
                listed += self._list_file(session, readers, max_size)
        self._listed_files = {path_to_text(session.path) for session in listed}
        return sorted(listed, key=lambda session: (-session.modified, str(session.path)))

    def find_unreadable(self) -> list[UnreadableFiles]:
        """Return the files with sessions that cannot be read, by agent and place."""
        found: list[UnreadableFiles] = []
        for agent in registry.list_agents():
            if not agent.unreadable:
                continue
            for place in resolve_places(agent.places, self._env, self._home, self._cwd):
                sizes = [facts.size for _, facts in find_matching(place)]
                if not sizes:
                    continue
                found.append(
                    UnreadableFiles(
                        agent.name,
                        agent.title,
                        find_fixed_folder(place),
                        len(sizes),
                        sum(sizes),
                        agent.unreadable,
                    )
                )
        return found

    def _find_files(self) -> Iterable[tuple[Session, list[str]]]:
        """Return each file once, with the readers that look for sessions at its place."""
        found: dict[object, tuple[Session, list[str]]] = {}
        for name, reader in registry.READERS.items():
            patterns = reader.definition.places
            for place in resolve_places(patterns, self._env, self._home, self._cwd):
                for path, facts in find_matching(place):
                    session = _create_session(name, path, facts, place)
                    _, readers = found.setdefault(facts.key, (session, []))
                    if name not in readers and not _is_part_file(name, path):
                        readers.append(name)
        return found.values()

    def _list_file(
        self, session: Session, readers: list[str], max_size: int | None
    ) -> list[Session]:
        """Return the sessions of one file; where several readers claim a place, content decides."""
        if len(readers) > 1:
            session = replace(session, reader=self._choose_reader(session, readers))
        elif readers[0] != session.reader:
            session = replace(session, reader=readers[0])
        if not registry.load_reader(session.reader).definition.holds_several:
            return [session]
        cached = self._recall(session)
        if cached is None:
            rows = _list_conversations(session, max_size)
            if rows is None:
                return [session]
            cached = self._remember(session, rows)
        # Where no times are stored, what comes later in a file is newer.
        return [_apply_row(session, row, len(cached.rows)) for row in reversed(cached.rows)]

    def _choose_reader(self, session: Session, readers: list[str]) -> str:
        cached = self._cache.recall(path_to_text(session.path), session.bytes, session.mtime_ns)
        if cached and cached.reader in readers:
            return cached.reader
        source = open_session(session)
        for name in readers:
            with contextlib.suppress(*_READER_ERRORS):
                if registry.load_reader(name).sniff(source):
                    return name
        return readers[0]

    def inspect(self, session: Session) -> Session:
        """Return the session with what the ends of its file say: id, working directory, title."""
        if session.is_inspected:
            return session
        cached = self._recall(session)
        if cached is None:
            cached = self._remember(session, [_build_row(_peek(session))])
        if not cached.rows:
            return replace(session, is_inspected=True)
        return _apply_row(session, cached.rows[0])

    def _recall(self, session: Session) -> CachedFile | None:
        cached = self._cache.recall(path_to_text(session.path), session.bytes, session.mtime_ns)
        if cached and cached.reader == session.reader:
            return cached
        return None

    def _remember(self, session: Session, rows: list[CachedRow]) -> CachedFile:
        cached = CachedFile(session.bytes, session.mtime_ns, session.reader, rows)
        self._cache.keep(path_to_text(session.path), cached)
        return cached

    def filter_by_folder(self, found: Iterable[Session], folder: Path) -> Iterator[Session]:
        """Yield the sessions whose working directory this is; inspects only as many as are taken."""
        wanted = _normalize(str(folder))
        hashes = {hashlib.sha256(os.fsencode(path)).hexdigest() for path in (str(folder), wanted)}
        is_wanted: dict[str, bool] = {}
        for session in found:
            inspected = self.inspect(session)
            cwd = inspected.cwd
            if not cwd:
                if inspected.cwd_sha256 in hashes:
                    yield inspected
                continue
            if cwd not in is_wanted:
                is_wanted[cwd] = "\0" not in cwd and _normalize(cwd) == wanted
            if is_wanted[cwd]:
                yield inspected

    def remember(self) -> None:
        """Save the cache for the next search."""
        self._cache.save(self._listed_files)


def _create_session(reader: str, path: Path, facts: FileFacts, place: Place) -> Session:
    return Session(
        extract_session_name(path, place),
        reader,
        path,
        facts.mtime_ns / 1e9,
        facts.size,
        mtime_ns=facts.mtime_ns,
        is_folder=place.pattern.endswith("/"),
        cwd=str(place.root) if place.is_here else None,
    )


def _normalize(folder: str) -> str:
    return os.path.normcase(os.path.realpath(folder))


def _is_part_file(reader: str, path: Path) -> bool:
    """Return whether a file belongs to the session in another file."""
    patterns = registry.load_reader(reader).definition.part_files
    return any(path.match(pattern) for pattern in patterns)


def open_session(session: Session, listings: FolderListings | None = None) -> Source:
    """Return the source of a session, with its conversation selected if the file holds several.

    A run that opens many sessions passes the listings of their folders.
    """
    if session.is_folder:
        source = Source.of_folder(session.path)
    else:
        source = Source.of(session.path)
    source.listings = listings
    if session.is_one_of > 1:
        source.conversation = session.conversation
    return source


def _peek(session: Session) -> dict[str, Any]:
    """Return what a reader finds in the first records, and a title that was given later."""
    reader = registry.load_reader(session.reader)
    facts: dict[str, Any] = {}
    if not reader.can_peek or session.is_folder:
        return facts
    for size in _HEAD_SIZES:
        records = read_first_records(session.path, size)
        with contextlib.suppress(*_READER_ERRORS):
            facts = reader.peek(records)
        is_whole_file = session.bytes < size
        if _get_text(facts.get("title")) or is_whole_file:
            break
    companion = reader.companion_file(session.path.name)
    if companion:
        with contextlib.suppress(*_READER_ERRORS):
            more = read_first_records(session.path.parent / companion, _HEAD_SIZES[0])
            facts = {**facts, **reader.peek(more)}
    if reader.can_peek_tail:
        with contextlib.suppress(*_READER_ERRORS):
            if not is_whole_file:
                records = read_last_records(session.path, _TAIL_SIZE)
            facts = {**facts, **reader.peek_tail(records)}
    return facts


def _list_conversations(session: Session, max_size: int | None) -> list[CachedRow] | None:
    """Return the conversations of a file that may hold several; None if that is not known now."""
    facts = _peek(session)
    if _get_text(facts.get("id")):
        if facts.get("is_part"):
            return []
        return [_build_row(facts)]
    try:
        source = open_session(session)
        is_cheap = session.is_folder or source.is_database or source.is_zip
        if max_size is not None and session.bytes > max_size and not is_cheap:
            return None
        reader = registry.load_reader(session.reader)
        if not reader.sniff(source):
            return []
        rows = [_build_listed_row(item) for item in reader.list_conversations(source)]
    except _READER_ERRORS:
        return None
    if rows or is_cheap:
        return rows
    # Some formats hold several conversations only in their databases and archives: any other file
    # is one.
    return [_build_row(facts)]


def _build_listed_row(item: Found) -> CachedRow:
    row = _build_row({"id": item.id, "cwd": item.cwd, "title": item.title})
    modified = _parse_time(item.updated_at) or _parse_time(item.started_at)
    return CachedRow(row.id, row.cwd, row.title, None, item.id, modified, item.messages)


def _parse_time(moment: str | None) -> float | None:
    with contextlib.suppress(ValueError):
        if moment:
            return datetime.fromisoformat(moment).timestamp()
        return None
    return None


def _build_row(facts: dict[str, Any]) -> CachedRow:
    title = _shorten(facts.get("title"))
    words = _shorten(facts.get("words"))
    session_id = _get_text(facts.get("id"))
    cwd = _get_text(facts.get("cwd"))
    cwd_sha256 = _get_text(facts.get("cwd_sha256"))
    return CachedRow(
        session_id if session_id and len(session_id) <= _MAX_ID else None,
        cwd if cwd and len(cwd) <= _MAX_PATH else None,
        title or normalize_title(_get_text(facts.get("words")) or "")[:_MAX_TITLE] or None,
        words if words and words != title else None,
        cwd_sha256=cwd_sha256 if cwd_sha256 and len(cwd_sha256) == 64 else None,
    )


def _shorten(value: Any) -> str:
    return " ".join((_get_text(value) or "").split())[:_MAX_TITLE]


def _apply_row(session: Session, row: CachedRow, count: int = 1) -> Session:
    session_id = row.id or session.id
    if row.id and row.id.isdecimal() and len(row.id) < 7:
        session_id = f"{session.id}#{row.id}"  # a number in its file, not a name
    return replace(
        session,
        id=session_id,
        cwd=row.cwd or session.cwd,
        cwd_sha256=row.cwd_sha256,
        title=row.title,
        words=row.words,
        conversation=row.conversation,
        is_one_of=count,
        modified=session.modified if row.modified is None else row.modified,
        messages=row.messages,
        is_inspected=True,
    )


def _get_text(value: Any) -> str | None:
    if isinstance(value, str) and value:
        return value
    return None


def find_by_id(found: list[Session], wanted: str) -> list[Session]:
    """Return the sessions with this id or file name; if there is none, those that start with it."""
    wanted = wanted.lower()
    names = [(session, _list_names(session)) for session in found]
    exact = [session for session, known in names if wanted in known]
    if exact:
        return exact
    starting: list[Session] = []
    for session, known in names:
        if any(name.startswith(wanted) for name in known):
            starting.append(session)
    return starting


def _list_names(session: Session) -> tuple[str, ...]:
    if session.is_one_of > 1:
        return (session.id.lower(),)
    stem = session.path.stem
    return session.id.lower(), extract_session_id(session.path).lower(), stem.lower()


def filter_by_words(found: Iterable[Session], text: str) -> Iterator[Session]:
    """Yield the sessions whose title, first words, id or directory contain every word."""
    words = text.lower().split()
    for session in found:
        fields = (session.title, session.words, session.id, session.cwd)
        searched = " ".join(field or "" for field in fields).lower()
        if all(word in searched for word in words):
            yield session


def drop_cut_word(text: str) -> str:
    """Return a title without the word at which it may have been cut: half a secret would not be
    recognized."""
    if len(text) >= _MAX_TITLE:
        return text.rpartition(" ")[0]
    return text


def find_in_folder(folder: Path) -> Iterator[Session]:
    """Yield the sessions in or below a directory, newest first; opens only as many as are taken."""
    candidates = (path for path in _walk_paths(folder) if path.suffix in _SUFFIXES)
    found = []
    for path in islice(candidates, _MAX_FILES_IN_A_FOLDER):
        facts = read_file_facts(path)
        if facts:
            found.append(_create_session("", path, facts, Place(folder, "*")))
    for session in sorted(found, key=lambda item: (-item.modified, str(item.path))):
        identified = _identify(session)
        if identified:
            yield identified


def find_in_file(path: Path) -> Session | None:
    """Return the session in a file anywhere; None if its format is unknown or it is only a part."""
    facts = read_file_facts(path)
    if facts is None:
        return None
    return _identify(_create_session("", path, facts, Place(path.parent, "*")))


def _identify(session: Session) -> Session | None:
    with contextlib.suppress(InputError):
        name = registry.detect_format(Source.of(session.path))
        if not _is_part_file(name, session.path):
            return replace(session, reader=name)
    return None


def _walk_paths(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _IGNORED_FOLDERS)
        yield from (Path(parent, name) for name in sorted(names))
