"""Process queued hook calls: find the session that a call names and archive it."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from open_token.errors import OpenTokenError, OutputError
from open_token.library.archive import Archive, Change
from open_token.library.discovery import Discovery, Session, find_by_id, find_in_file
from open_token.library.hooks.handlers import list_hook_agents
from open_token.library.hooks.log import LogLine, append_log
from open_token.library.hooks.payload import HookCall
from open_token.library.hooks.queue import CallQueue

_LOCK_TIMEOUT = 600
_POLL_SECONDS = 0.5
# Agents write their last lines during the hook for the end of a session and after it.
_SETTLE_SECONDS = 2.0
# After a turn, the process rests this many times as long as it worked: it takes some 5 % of a core.
_REST_FACTOR = 20
_MAX_REST = 300.0


@dataclass(frozen=True)
class ArchivingContext:
    """What processing needs from outside; tests replace it."""

    discovery: Callable[[], Discovery]
    """Creates a search for sessions."""
    archive: Callable[[str], Archive]
    """Opens the archive in a directory."""
    now: Callable[[], str]
    """Returns the time of day for the log."""
    clock: Callable[[], float]
    work: Callable[[], float]
    """Returns the CPU seconds of this process."""
    sleep: Callable[[float], None]


def process_queue(queue: CallQueue, context: ArchivingContext) -> None:
    """Process all waiting calls, unless another process does.

    The queue is checked again after the lock was released, so that no call is missed.
    """
    while queue.list_waiting():
        with queue.lock() as is_ours:
            if not is_ours:
                return
            work = 0.0
            for path in queue.list_waiting():
                claimed, call = queue.claim(path)
                before = context.work()
                if call is not None and not _process_call(call, queue, context):
                    return
                if not queue.finish(claimed):
                    return
                if call is not None and not call.is_end:
                    work += context.work() - before
            _rest(queue, context, _REST_FACTOR * work)


def _rest(queue: CallQueue, context: ArchivingContext, seconds: float) -> None:
    """Wait, but not longer than until a session ends."""
    end = context.clock() + min(seconds, _MAX_REST)
    while context.clock() < end and not queue.has_session_end():
        context.sleep(_POLL_SECONDS)


def _process_call(call: HookCall, queue: CallQueue, context: ArchivingContext) -> bool:
    """Archive one session and log the result.

    Return False if the archive cannot be written, so that the call is tried again later.
    """
    at = context.now()
    started = context.clock()
    is_processed = True
    code: str | None
    try:
        result, code = _archive_sessions(call, context)
    except OpenTokenError as problem:
        result = "failed"
        code = problem.code
        is_processed = not isinstance(problem, OutputError)
    except Exception as problem:
        result = "failed"
        code = type(problem).__name__
    line = LogLine(
        at=at,
        runtime=call.runtime,
        event=call.event,
        id=call.id,
        result=result,
        code=code,
        seconds=round(context.clock() - started, 3),
    )
    append_log(queue.folder, line)
    return is_processed


def _archive_sessions(call: HookCall, context: ArchivingContext) -> tuple[str, str | None]:
    """Return the result for the log, and the code of an error."""
    sessions = find_called_sessions(call, context.discovery())
    if not sessions:
        return "not found", None
    changes = _run_archive(call, sessions, context)
    if call.is_end:
        context.sleep(_SETTLE_SECONDS)
        later_sessions = find_called_sessions(call, context.discovery())
        if later_sessions != sessions:
            changes += _run_archive(call, later_sessions, context)
    return _summarize_changes(changes, {session.reader for session in sessions})


def _run_archive(
    call: HookCall, sessions: list[Session], context: ArchivingContext
) -> list[Change]:
    archive = context.archive(call.folder)
    with _lock_archive(archive, context):
        return list(archive.run(sessions, is_all=False))


def _summarize_changes(changes: list[Change], readers: set[str]) -> tuple[str, str | None]:
    """Return the last change of these sessions; a pass may also report others."""
    own = [change for change in changes if change.entry.reader in readers]
    if not own:
        return "unchanged", None
    last = own[-1]
    return last.kind, last.problem.code if last.problem else None


@contextlib.contextmanager
def _lock_archive(archive: Archive, context: ArchivingContext) -> Iterator[None]:
    """Hold the lock of the archive; wait for a process that has it."""
    deadline = context.clock() + _LOCK_TIMEOUT
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(archive.lock())
                break
            except OutputError as problem:
                if problem.code != "archive.busy" or context.clock() > deadline:
                    raise
            context.sleep(_POLL_SECONDS)
        yield


def find_called_sessions(call: HookCall, discovery: Discovery) -> list[Session]:
    """Return the sessions that a call names: those in its file, else those of its agent by id."""
    sessions = discovery.sessions()
    discovery.remember()
    agent = list_hook_agents().get(call.runtime)
    reader = agent.name if agent else None
    if call.path:
        in_file = _find_sessions_in_file(call, sessions, reader)
        if in_file is not None:
            return in_file
    if not call.id:
        return []
    candidates = [session for session in sessions if reader in (None, session.reader)]
    return find_by_id(candidates, call.id)


def _find_sessions_in_file(
    call: HookCall, sessions: list[Session], reader: str | None
) -> list[Session] | None:
    """Return the sessions in the file of a call, or None if it holds none.

    A file outside of the usual places counts only if it is in the format of the calling agent.
    """
    facts = _stat_plain_file(call.path)
    if facts is None:
        return None
    path = Path(call.path)
    in_file = [
        session
        for session in sessions
        if session.path.name == path.name and _is_same_file(session.path, facts)
    ]
    if in_file:
        several = [session for session in in_file if session.is_one_of > 1]
        return find_by_id(several, call.id) if several and call.id else in_file
    session = find_in_file(path)
    if session and session.reader == reader:
        return [session]
    return None


def _stat_plain_file(path: str) -> os.stat_result | None:
    """Return the facts of a plain file with an absolute path; None for anything else."""
    with contextlib.suppress(OSError, ValueError):
        facts = os.lstat(path)
        if os.path.isabs(path) and stat.S_ISREG(facts.st_mode):
            return facts
    return None


def _is_same_file(path: Path, facts: os.stat_result) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.path.samestat(path.stat(), facts)
    return False
