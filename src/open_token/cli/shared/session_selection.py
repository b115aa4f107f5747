"""Finding a session on this machine: by id, number or folder, from a list, or the running one."""

import contextlib
import os
import re
import sys
import time
from itertools import islice
from pathlib import Path

from open_token.cli.shared.console import (
    Console,
    escape_controls,
    format_age,
    pluralize,
    truncate_to_columns,
)
from open_token.cli.shared.keyboard import (
    DOWN,
    ENTER,
    ERASE,
    ESCAPE,
    UP,
    raw_terminal,
    read_key,
)
from open_token.cli.shared.session_titles import mask_session_titles
from open_token.cli.shared.source_selection import SelectedSource
from open_token.context import Context
from open_token.errors import InputError, UsageError
from open_token.handoff.copies import NOTE_TAIL_SIZE, HandoffCopyDetector, may_be_copy
from open_token.library.discovery import (
    Discovery,
    Session,
    find_by_id,
    find_in_folder,
    open_session,
)
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.registry import detect_format, list_agents
from open_token.sources.source import Source
from open_token.storage.files import read_ends

_MAX_PICKABLE = 200
_PICKER_ROWS = 12


def find_by_word(word: str, console: Console) -> SelectedSource:
    """Find a session by folder, `last`, `@N`, id or id prefix."""
    path = console.cwd / os.path.expanduser(word)
    if os.path.isdir(path):
        return _find_in_folder(path)
    discovery = _discover(console)
    if word == "last":
        return _find_nth_newest(discovery.sessions(), 1)
    if re.fullmatch("@[0-9]{1,9}", word):
        return _find_nth_newest(discovery.sessions(), int(word[1:]))
    return _find_by_id(discovery, word)


def _discover(console: Console) -> Discovery:
    return Discovery.of(console.env, console.home, console.cwd)


def _find_by_id(discovery: Discovery, word: str) -> SelectedSource:
    sessions = discovery.sessions()
    # File names mostly contain the id; the files are opened only if none matches.
    matches = find_by_id(sessions, word)
    if not matches:
        matches = find_by_id([discovery.inspect(session) for session in sessions], word)
    # Gemini CLI 0.61 starts a second file when it resumes a session, then continues the first.
    ids = {discovery.inspect(session).id for session in matches}
    discovery.remember()
    if len(ids) == 1:
        return _select(matches[0], None)
    if matches:
        examples = ", ".join(session.id for session in matches[:4])
        raise InputError(
            f"{pluralize(len(matches), 'session')} match that id prefix",
            where=word,
            help=f"give more of the id: {examples}",
        )
    raise InputError(
        "no such file or session",
        where=word[:200],
        help="list the sessions on this machine with `open-token sessions`",
        code="input.missing",
    )


def _find_nth_newest(sessions: list[Session], number: int) -> SelectedSource:
    if not sessions:
        raise _no_sessions_error()
    if not 1 <= number <= len(sessions):
        raise InputError(
            f"there is no session @{number}: {pluralize(len(sessions), 'session')} found",
            help="list them with `open-token sessions`",
            code="input.none",
        )
    how = "the newest session on this machine"
    if number > 1:
        how = f"number {number} of the sessions on this machine, newest first"
    return _select(_rank_originals_first(sessions, number), how)


def _rank_originals_first(sessions: list[Session], number: int) -> Session:
    """Return the Nth newest session; copies made by `handoff` and never continued come last."""
    originals = (session for session in sessions if not _is_unused_copy(session))
    original = next(islice(originals, number - 1, None), None)
    if original is not None:
        return original
    return sorted(sessions, key=_is_unused_copy)[number - 1]


def _is_unused_copy(session: Session) -> bool:
    if session.is_one_of > 1 or not may_be_copy(read_ends(session.path, 0, NOTE_TAIL_SIZE)[1]):
        return False
    ending = HandoffCopyDetector()
    with contextlib.suppress(InputError):
        for event in read_record(
            open_session(session), Context(ExportOptions()), session.reader
        ).events:
            ending.take(event)
    return ending.is_note


def _find_in_folder(folder: Path) -> SelectedSource:
    # Some agents store one session as a folder; any other folder is searched.
    source = Source.of_folder(folder)
    with contextlib.suppress(InputError):
        return SelectedSource(source, reader=detect_format(source))
    newest = next(iter(find_in_folder(folder)), None)
    if newest is not None:
        return _select(newest, "the newest session in that folder")
    raise InputError(
        "no session found in this folder",
        where=str(folder),
        help="name a file; `open-token formats` lists the supported formats",
        code="input.none",
    )


def find_newest(console: Console) -> SelectedSource:
    """Find the newest session of the working directory; without one, ask, or refuse."""
    discovery = _discover(console)
    sessions = discovery.sessions()
    local_sessions = discovery.filter_by_folder(sessions, console.cwd)
    newest = next(local_sessions, None)
    original = newest
    while original and _is_unused_copy(original):
        original = next(local_sessions, None)
    discovery.remember()
    if newest:
        return _select(original or newest, "the newest session of this folder")
    if not sessions:
        raise _no_sessions_error()
    # The newest of the machine may belong to another project: nobody meant to export that.
    if console.is_interactive:
        console.info("no session of this folder found; choose one of this machine")
        return pick_from_list(console)
    raise InputError(
        "no session found in this folder",
        where=str(console.cwd),
        help="`last` names the newest on this machine; `open-token sessions` lists all",
        code="input.none",
    )


def _no_sessions_error() -> InputError:
    return InputError(
        "no sessions found on this machine",
        help="name a file; `open-token formats` lists the supported formats",
        code="input.none",
    )


def find_running(console: Console) -> SelectedSource:
    """Find the session that this process runs in."""
    agents = list_agents()
    for agent in agents:
        for variable in agent.session_file_variables:
            path = console.env.get(variable)
            if path:
                how = f"{escape_controls(path)} (the session named by {variable})"
                return SelectedSource(Source.of(Path(path)), how)
    discovery = _discover(console)
    sessions = discovery.sessions()
    reason = "no environment variable names the running session"
    for agent in agents:
        for variable in agent.session_id_variables:
            session_id = console.env.get(variable)
            if not session_id:
                continue
            named = find_by_id(sessions, session_id)
            matches = [session for session in named if session.reader == agent.name]
            if len(matches) == 1:
                return _select(matches[0], f"the running session, from {variable}")
            reason = f"the session named by {variable} was not found"
    newest = next(iter(discovery.filter_by_folder(sessions, console.cwd)), None)
    if newest is not None:
        return _select(newest, f"{reason}; this is the newest of this folder")
    raise InputError(
        "cannot determine the running session",
        help="name a session; `open-token sessions` lists them",
        code="input.none",
    )


def pick_from_list(console: Console) -> SelectedSource:
    """Let the user pick a session from a list."""
    if not console.is_interactive:
        raise UsageError(
            "--pick needs a terminal", help="name a session; `open-token sessions` lists them"
        )
    discovery = _discover(console)
    newest = islice(discovery.sessions(), _MAX_PICKABLE)
    sessions = [discovery.inspect(session) for session in newest]
    if not sessions:
        raise _no_sessions_error()
    picked = pick_session(mask_session_titles(sessions, console), console)
    if picked is None:
        raise KeyboardInterrupt
    return _select(picked, None)


def _select(session: Session, reason: str | None) -> SelectedSource:
    path = escape_controls(str(session.path))
    how = f"{path} ({reason})" if reason else path
    return SelectedSource(open_session(session), how, session.reader)


def pick_session(sessions: list[Session], console: Console) -> Session | None:
    """Show a list to filter by typing; return the session that was taken, None on Esc."""
    typed = ""
    position = 0
    now = time.time()
    with raw_terminal():
        while True:
            shown = filter_sessions(sessions, typed)
            position = max(0, min(position, len(shown) - 1))
            _draw_list(shown, typed, position, console, now)
            key = read_key()
            if key == ENTER and shown:
                _clear_list()
                return shown[position]
            if key == ESCAPE:
                _clear_list()
                return None
            if key == DOWN:
                position += 1
            elif key == UP:
                position -= 1
            elif key == ERASE:
                typed = typed[:-1]
            elif key.isprintable() and key != ENTER:
                typed += key
                position = 0


def filter_sessions(sessions: list[Session], typed: str) -> list[Session]:
    """Return the sessions in which every typed word occurs."""
    words = typed.lower().split()
    matching: list[Session] = []
    for session in sessions:
        text = _searchable_text(session)
        if all(word in text for word in words):
            matching.append(session)
    return matching


def _searchable_text(session: Session) -> str:
    title = session.title or session.path.name
    return f"{session.id} {session.reader} {title} {session.cwd or ''}".lower()


def format_row(session: Session, width: int, now: float) -> str:
    """Format one row of the list."""
    title = session.title or session.path.name
    age = format_age(now - session.modified)
    row = f"{session.id[:8]:8}  {session.reader:12.12}  {age:>5}  {title}"
    return truncate_to_columns(escape_controls(row), width)


def _draw_list(
    sessions: list[Session], typed: str, position: int, console: Console, now: float
) -> None:
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    rows = max(3, min(_PICKER_ROWS, lines - 3))
    first = max(0, min(position - rows // 2, len(sessions) - rows))
    prompt = f"session? {escape_controls(typed)}_   ({len(sessions)})  arrows, Enter, Esc"
    text = [truncate_to_columns(prompt, columns - 1)]
    for number, session in enumerate(sessions[first : first + rows], first):
        row = format_row(session, columns - 3, now)
        if number == position:
            text.append(console.style(f"> {row}", "bold", True))
        else:
            text.append(f"  {row}")
    # The cursor goes back to the prompt, so that the next drawing starts there.
    cursor_up = f"\r\x1b[{len(text) - 1}A" if len(text) > 1 else ""
    sys.stderr.write("\r\x1b[J" + "\r\n".join(text) + cursor_up)
    sys.stderr.flush()


def _clear_list() -> None:
    sys.stderr.write("\r\x1b[J")
    sys.stderr.flush()
