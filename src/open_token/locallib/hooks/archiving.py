"""Carries calls out: finds the conversation that is meant and keeps it in the archive, apart from
whoever called."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from open_token.errors import OpenTokenError, OutputError
from open_token.locallib.archive import Archive, Change
from open_token.locallib.discovery import Discovery, Session, find_by_id, find_in_file
from open_token.locallib.hooks.handlers import list_hook_agents
from open_token.locallib.hooks.log import LogLine, append_log
from open_token.locallib.hooks.payload import HookCall
from open_token.locallib.hooks.queue import CallQueue

_PATIENCE = 600
"""So many seconds a call waits for another process that works on the same archive."""
_SETTLED = 2.0
"""Runtimes write their last lines while the hook of the end of a session runs, and after it."""
_SHARE = 20
_LONGEST_REST = 300.0
"""After a turn it rests twenty times as long as it worked, at most so many seconds: some 5 % of the
time."""


@dataclass(frozen=True)
class Surroundings:
    """What the edge gives: how to look about, an archive of a folder, the time, and a way to
    wait."""

    discovery: Callable[[], Discovery]
    archive: Callable[[str], Archive]
    now: Callable[[], str]
    clock: Callable[[], float]
    work: Callable[[], float]
    """The seconds that the processor has spent on us."""
    sleep: Callable[[float], None]


def archive_all(waiting: CallQueue, world: Surroundings) -> None:
    """Carry out all that waits, unless another process does; a call that comes meanwhile is seen
    before the end."""
    while waiting.names():
        with waiting.held() as is_ours:
            if not is_ours:
                return
            work = 0.0
            for path in waiting.names():
                taken, call = waiting.begin(path)
                before = world.work()
                if (call is not None and not _kept(call, waiting, world)) or not waiting.done(
                    taken
                ):
                    return
                work += 0.0 if call is None or call.is_end else world.work() - before
            _rest(waiting, world, _SHARE * work)


def _rest(waiting: CallQueue, world: Surroundings, seconds: float) -> None:
    end = world.clock() + min(seconds, _LONGEST_REST)
    while world.clock() < end and not waiting.is_ending():
        world.sleep(0.5)


def _kept(call: HookCall, waiting: CallQueue, world: Surroundings) -> bool:
    """Keep one conversation; False when nothing can be written now, and the call is to be tried
    again."""
    started, may_go_on = world.clock(), True
    told = LogLine(
        at=world.now(), runtime=call.runtime, event=call.event, id=call.id, result="kept"
    )
    try:
        told.result, told.code = _archived(call, world)
    except OpenTokenError as problem:
        told.result, told.code = "failed", problem.code
        may_go_on = not isinstance(problem, OutputError)
    except Exception as problem:
        told.result, told.code = "failed", type(problem).__name__
    told.seconds = round(world.clock() - started, 3)
    append_log(waiting.folder, told)
    return may_go_on


def _archived(call: HookCall, world: Surroundings) -> tuple[str, str | None]:
    found = find_called_sessions(call, world.discovery())
    if not found:
        return "not found", None
    changes = _pass(call, found, world)
    if call.is_end:
        world.sleep(_SETTLED)
        later = find_called_sessions(call, world.discovery())
        changes += _pass(call, later, world) if later != found else []
    return _result(changes, {session.reader for session in found})


def _pass(call: HookCall, found: list[Session], world: Surroundings) -> list[Change]:
    archive = world.archive(call.folder)
    with _held(archive, world):
        return list(archive.run(found, is_all=False))


def _result(changes: list[Change], readers: set[str]) -> tuple[str, str | None]:
    """The last that became of it; what the pass told of others is theirs."""
    own = [change for change in changes if change.entry.reader in readers]
    if not own:
        return "unchanged", None
    return own[-1].kind, own[-1].problem.code if own[-1].problem else None


@contextlib.contextmanager
def _held(archive: Archive, world: Surroundings) -> Iterator[None]:
    """The archive for us alone, as soon as nobody else works on it."""
    end = world.clock() + _PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(archive.held())
                break
            except OutputError as problem:
                if problem.code != "archive.busy" or world.clock() > end:
                    raise
            world.sleep(0.5)
        yield


def find_called_sessions(call: HookCall, discovery: Discovery) -> list[Session]:
    """The conversations that a call means: those in its file, else those of its id that its runtime
    wrote."""
    found = discovery.sessions()
    discovery.remember()
    agent = list_hook_agents().get(call.runtime)
    reader = agent.name if agent else None
    if call.path and (facts := _plain(call.path)):
        path = Path(call.path)
        there = [
            session
            for session in found
            if session.path.name == path.name and _is(session.path, facts)
        ]
        rows = [session for session in there if session.is_one_of > 1]
        if there:
            return find_by_id(rows, call.id) if rows and call.id else there
        stranger = find_in_file(path)
        if stranger and stranger.reader == reader:
            return [stranger]
    if not call.id:
        return []
    return find_by_id([session for session in found if reader in (None, session.reader)], call.id)


def _plain(path: str) -> os.stat_result | None:
    """The facts of a file that is one, named whole, and no link."""
    with contextlib.suppress(OSError, ValueError):
        facts = os.lstat(path)
        if os.path.isabs(path) and stat.S_ISREG(facts.st_mode):
            return facts
    return None


def _is(path: Path, facts: os.stat_result) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.path.samestat(path.stat(), facts)
    return False
