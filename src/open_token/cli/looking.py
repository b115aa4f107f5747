"""Looks about for a conversation: in a folder, on this machine, by id or number, from a list, or
the one we run in."""

import contextlib
import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from open_token.cli.choosing import Choice
from open_token.cli.console import Console, plural, visible
from open_token.cli.pick import pick
from open_token.cli.titles import with_masked_titles
from open_token.context import Context
from open_token.errors import InputError, UsageError
from open_token.handoff.copies import TAIL, Ending, may_be_copy
from open_token.locallib.discovery import (
    Discovery,
    Session,
    find_by_id,
    find_in_folder,
    open_session,
)
from open_token.options import ExportOptions
from open_token.pipeline import read
from open_token.registry import detect_format
from open_token.sources.source import Source
from open_token.storage.files import ends_of

RUNNING: tuple[tuple[str, str], ...] = (
    ("claude_code", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_THREAD_ID"),
    ("codex", "CODEX_SESSION_ID"),
    ("gemini_cli", "GEMINI_SESSION_ID"),
    ("copilot_cli", "COPILOT_AGENT_SESSION_ID"),
    ("qwen_code", "QWEN_CODE_SESSION_ID"),
    ("pi", "PI_SESSION_ID"),
)
FILES = ("PI_SESSION_FILE", "CURSOR_TRANSCRIPT_PATH")
_IN_A_PICK_LIST = 200


def named(word: str, console: Console) -> Choice:
    """A folder, `last`, `@2`, or an id or its start."""
    path = console.cwd / os.path.expanduser(word)
    if os.path.isdir(path):
        return _folder(path)
    discovery = _discovery(console)
    if word == "last" or re.fullmatch("@[0-9]{1,9}", word):
        return _numbered(discovery.sessions(), int(word[1:]) if word != "last" else 1)
    return _by_id(discovery, word)


def _discovery(console: Console) -> Discovery:
    return Discovery.of(console.env, console.home, console.cwd)


def _by_id(discovery: Discovery, word: str) -> Choice:
    found = discovery.sessions()
    matching = find_by_id(found, word) or find_by_id(
        [discovery.inspect(session) for session in found], word
    )
    # Gemini CLI 0.61 begins another file when it resumes a session, and then goes on in the first.
    is_one = len({discovery.inspect(session).id for session in matching}) == 1
    discovery.remember()
    if is_one:
        return _found(matching[0], None)
    if matching:
        ids = ", ".join(session.id for session in matching[:4])
        raise InputError(
            f"{plural(len(matching), 'conversation')} start with that id",
            where=word,
            help=f"give more of it: {ids}",
        )
    raise InputError(
        "there is no such file, and no conversation with that id",
        where=word[:200],
        help="list the conversations of this machine with `open-token sessions`",
        code="input.missing",
    )


def _numbered(found: list[Session], number: int) -> Choice:
    if not found:
        raise _none_here()
    if not 1 <= number <= len(found):
        raise InputError(
            f"there is no @{number}: {plural(len(found), 'conversation')} on this machine",
            help="list them with `open-token sessions`",
            code="input.none",
        )
    how = (
        "the newest of this machine"
        if number == 1
        else f"number {number} of this machine, the newest being 1"
    )
    return _found(_of_its_own(found, number), how)


def _of_its_own(found: list[Session], number: int) -> Session:
    """The so-manieth newest, copies that were handed over and that nobody went on with coming after
    all others."""
    originals = (session for session in found if not _is_copy(session))
    if session := next(islice(originals, number - 1, None), None):
        return session
    ordered = sorted(found, key=_is_copy)
    return ordered[number - 1]


def _is_copy(session: Session) -> bool:
    if session.is_one_of > 1 or not may_be_copy(ends_of(session.path, 0, TAIL)[1]):
        return False
    ending = Ending()
    with contextlib.suppress(InputError):
        for event in read(open_session(session), Context(ExportOptions()), session.reader).events:
            ending.take(event)
    return ending.is_note


def _folder(folder: Path) -> Choice:
    whole = Source.of_folder(folder)
    with contextlib.suppress(InputError):
        return Choice(whole, reader=detect_format(whole))
    for session in find_in_folder(folder):
        return _found(session, "the newest conversation in that folder")
    raise InputError(
        "there is no conversation in this folder",
        where=str(folder),
        help="name a file; list what can be read with `open-token formats`",
        code="input.none",
    )


def newest(console: Console) -> Choice:
    """The newest conversation of this folder, else of this machine."""
    discovery = _discovery(console)
    found = discovery.sessions()
    here = discovery.filter_by_folder(found, console.cwd)
    session = first = next(here, None)
    while session and _is_copy(session):
        session = next(here, None)
    discovery.remember()
    if first:
        return _found(session or first, "the newest conversation of this folder")
    if found:
        return _found(
            _of_its_own(found, 1),
            "no conversation was held in this folder; this is the newest of this machine",
        )
    raise _none_here()


def _none_here() -> InputError:
    return InputError(
        "no conversation was found on this machine",
        help="name a file; list what can be read with `open-token formats`",
        code="input.none",
    )


def running(console: Console) -> Choice:
    """The conversation that this process runs in."""
    for variable in FILES:
        if path := console.env.get(variable):
            return Choice(
                Source.of(Path(path)), f"{visible(path)} (the conversation that {variable} names)"
            )
    discovery = _discovery(console)
    found = discovery.sessions()
    why = "no variable tells the running conversation"
    for reader, variable in _running(console.env):
        matching = [
            session
            for session in find_by_id(found, console.env[variable])
            if session.reader == reader
        ]
        if len(matching) == 1:
            return _found(matching[0], f"the conversation this process runs in, by {variable}")
        why = f"the conversation that {variable} names was not found"
    for session in discovery.filter_by_folder(found, console.cwd):
        return _found(session, f"{why}; this is the newest of this folder")
    raise InputError(
        "the conversation this process runs in cannot be told",
        help="name it: `open-token sessions` lists what is on this machine",
        code="input.none",
    )


def _running(env: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(reader, variable) for reader, variable in RUNNING if env.get(variable)]


def picked(console: Console) -> Choice:
    """The one that a person takes from a list."""
    if not console.is_terminal:
        raise UsageError(
            "--pick asks, and this is not a terminal",
            help="name one: `open-token sessions` lists them",
        )
    discovery = _discovery(console)
    found = [
        discovery.inspect(session) for session in islice(discovery.sessions(), _IN_A_PICK_LIST)
    ]
    if not found:
        raise _none_here()
    chosen = pick(with_masked_titles(found, console), console)
    if chosen is None:
        raise KeyboardInterrupt
    return _found(chosen, None)


def _found(session: Session, how: str | None) -> Choice:
    place = visible(str(session.path))
    return Choice(open_session(session), f"{place} ({how})" if how else place, session.reader)
