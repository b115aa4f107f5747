"""What is on this machine: the conversations in every reader's usual places, newest first."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from open_token.errors import InputError
from open_token.readers import NAMES, choose, load
from open_token.source import Source

_PEEK = 1 << 16
_TITLE = 160
_FILES_IN_A_FOLDER = 5000
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".gz", ".txt")
_NOT_WALKED = {".git", "node_modules", ".venv", "__pycache__"}


@dataclass(frozen=True)
class Session:
    """A conversation that was found: where it is, whose it is, how new, and what its first lines tell."""

    id: str
    reader: str
    path: Path
    modified: float
    bytes: int
    cwd: str | None = None
    title: str | None = None


def sessions(env: Mapping[str, str], home: Path) -> list[Session]:
    """Every conversation in the usual places, newest first, without looking into the files."""
    found: dict[Path, Session] = {}
    for name in NAMES:
        for root, pattern in _places(name, env, home):
            for path in _matching(root, pattern):
                session = _stat(name, path)
                if session and path not in found and not _is_part(name, path):
                    found[path] = session
    return sorted(found.values(), key=lambda s: (-s.modified, str(s.path)))


def _places(name: str, env: Mapping[str, str], home: Path) -> Iterator[tuple[Path, str]]:
    for place in load(name).PLACES:
        if place.startswith("$"):
            variable, _, pattern = place[1:].partition("/")
            if env.get(variable):
                yield Path(env[variable]), pattern
        else:
            yield home, place


def _matching(root: Path, pattern: str) -> list[Path]:
    try:
        return list(root.glob(pattern))
    except OSError:
        return []


def _stat(name: str, path: Path) -> Session | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    if not facts.st_size or not stat.S_ISREG(facts.st_mode):
        return None
    return Session(_id_in_name(path), name, path, facts.st_mtime, facts.st_size)


def _is_part(name: str, path: Path) -> bool:
    """Whether a file belongs to a conversation in another file, by the PARTS that a reader may name."""
    return any(path.match(pattern) for pattern in getattr(load(name), "PARTS", ()))


def look(session: Session) -> Session:
    """The same session with what its first lines tell: its own id, its folder, its title."""
    peek = getattr(load(session.reader), "peek", None)
    told: dict[str, Any] = peek(_first_records(session.path)) if peek else {}
    title = _text(told.get("title"))
    return replace(
        session,
        id=_text(told.get("id")) or session.id,
        cwd=_text(told.get("cwd")),
        title=" ".join(title.split())[:_TITLE] if title else None,
    )


def _first_records(path: Path) -> list[Any]:
    try:
        return Source(str(path), path=path).opening(_PEEK)
    except InputError:
        return []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def by_id(found: list[Session], wanted: str) -> list[Session]:
    """The sessions whose id, or the id in whose file name, or whose file name starts with the given one."""
    wanted = wanted.lower()
    names = [(session, _names(session)) for session in found]
    matching = [session for session, known in names if any(name.startswith(wanted) for name in known)]
    exact = [session for session, known in names if wanted in known]
    return exact or matching


def _names(session: Session) -> tuple[str, ...]:
    return session.id.lower(), _id_in_name(session.path).lower(), session.path.stem.lower()


def _id_in_name(path: Path) -> str:
    """The session id at the end of a name such as rollout-<time>-<id>."""
    stem = path.stem
    return stem[-36:] if len(stem) > 36 and stem[-36:].count("-") == 4 else stem


def of_folder(found: list[Session], folder: Path) -> Iterator[Session]:
    """Those that were held in a folder, newest first; reads only as many files as are asked for."""
    wanted = os.path.realpath(folder)
    for session in found:
        seen = look(session)
        if seen.cwd and "\0" not in seen.cwd and os.path.realpath(seen.cwd) == wanted:
            yield seen


def in_folder(folder: Path) -> Iterator[Session]:
    """The conversations that lie in or below a folder, newest first; reads only as many files as are asked for."""
    files = islice((path for path in _below(folder) if path.suffix in _SUFFIXES), _FILES_IN_A_FOLDER)
    found = [session for path in files if (session := _stat("", path))]
    for session in sorted(found, key=lambda s: (-s.modified, str(s.path))):
        with contextlib.suppress(InputError):
            name = choose(Source.of(session.path))
            if not _is_part(name, session.path):
                yield replace(session, reader=name)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_WALKED)
        yield from (Path(place, name) for name in sorted(names))
