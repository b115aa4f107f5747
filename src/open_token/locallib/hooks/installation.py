"""Tells runtimes to call us, and to stop it: one file of theirs each, changed whole or not at all,
with a backup."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from open_token.errors import InputError, OutputError
from open_token.locallib.hooks.config_merge import (
    Unsafe,
    add_handlers,
    find_our_programs,
    parse_config,
    remove_handlers,
    render_snippet,
)
from open_token.locallib.hooks.handlers import build_command, get_hooks, list_hook_agents
from open_token.locallib.skills import SCOPES, Machine
from open_token.storage.files import (
    make_folder,
    make_parents,
    read_existing,
    read_optional,
    remove_file,
    write_atomic,
    write_private,
)


@dataclass(frozen=True)
class Change:
    """What is done to a runtime's file: write, update, same, remove; or refuse, with the reason and
    what to paste."""

    runtime: str
    action: str
    path: Path
    why: str = ""
    snippet: str = ""


@dataclass(frozen=True)
class Place:
    """A runtime's file and how our hooks stand in it."""

    runtime: str
    scope: str
    state: str
    path: Path


class _Known(msgspec.Struct):
    """A file as we left it: its hash, whether it was there before, and which folders were not."""

    written: str
    was_there: bool
    made: list[str] = []


class _Ledger(msgspec.Struct):
    version: Literal[1] = 1
    files: dict[str, _Known] = {}


def install(
    machine: Machine,
    names: Iterable[str],
    scope: str,
    program: tuple[str, ...],
    folder: Path | None,
    *,
    dry_run: bool = False,
) -> list[Change]:
    """Let these runtimes call us."""
    done = []
    for name in names:
        agent_hooks = get_hooks(name)
        path = _file(machine, name, scope)
        command = build_command(program, name, folder)
        try:
            raw = _readable(machine, path, scope)
            fresh = add_handlers(raw or b"", agent_hooks, name, command)
        except Unsafe as problem:
            done.append(
                Change(name, "refuse", path, str(problem), render_snippet(agent_hooks, command))
            )
            continue
        action = "same" if fresh == raw else "write" if raw is None else "update"
        done.append(Change(name, action, path))
        if action != "same" and not dry_run:
            _write(machine, path, raw, fresh)
    return done


def uninstall(
    machine: Machine, names: Iterable[str], scope: str, *, dry_run: bool = False
) -> list[Change]:
    """Take out what was put in; a file that is as we left it becomes the very one it was before."""
    done = []
    for name in names:
        path = _file(machine, name, scope)
        try:
            raw = _readable(machine, path, scope)
            if raw is None or not find_our_programs(raw, get_hooks(name), name):
                continue
            fresh = _before(machine, path, raw, name)
        except Unsafe as problem:
            why = f"{problem}; take out the entries that run `hook run --for {name}` yourself"
            done.append(Change(name, "refuse", path, why))
            continue
        done.append(Change(name, "remove" if fresh is None else "update", path))
        if not dry_run:
            _restore(machine, path, raw, fresh)
    return done


def detect(machine: Machine) -> list[str]:
    """The runtimes whose folder is here."""
    return [
        name for name in list_hook_agents() if os.path.isdir(machine.fill(get_hooks(name).home))
    ]


def status(machine: Machine, program: tuple[str, ...]) -> list[Place]:
    """How our hooks stand with every runtime that is here or calls us."""
    found = detect(machine)
    places = []
    for name in list_hook_agents():
        for scope in SCOPES:
            path = _file(machine, name, scope)
            state = _state(machine, path, scope, name, program)
            if state != "absent" or (scope == "user" and name in found):
                places.append(Place(name, scope, state, path))
    return places


def installed_for(machine: Machine, scope: str) -> list[str]:
    """The runtimes that call us in this scope."""
    states = {
        name: _state(machine, _file(machine, name, scope), scope, name, ())
        for name in list_hook_agents()
    }
    return [name for name, state in states.items() if state not in ("absent", "unreadable")]


def _state(machine: Machine, path: Path, scope: str, name: str, program: tuple[str, ...]) -> str:
    agent_hooks = get_hooks(name)
    try:
        raw = _readable(machine, path, scope)
        programs = find_our_programs(raw, agent_hooks, name) if raw is not None else []
    except Unsafe:
        return "unreadable"
    if not programs:
        return "absent"
    if not all(os.path.exists(program) for program in programs):
        return "broken"
    is_ours = all(found == program[0] for found in programs) if program else True
    return "installed" if len(programs) == len(agent_hooks.events) and is_ours else "outdated"


def _file(machine: Machine, name: str, scope: str) -> Path:
    agent_hooks = get_hooks(name)
    if scope == "project":
        return machine.project / agent_hooks.project
    return machine.fill(agent_hooks.user)


def _readable(machine: Machine, path: Path, scope: str) -> bytes | None:
    """The bytes of a file that may be changed; None when it is not there yet."""
    if scope == "project":
        for part in (path, *path.parents):
            if part == machine.project:
                break
            if os.path.islink(part):
                raise Unsafe(
                    "the way to it leads through a symbolic link, which may leave the project"
                )
    if os.path.lexists(path) and not os.path.isfile(path):
        raise Unsafe("it is not a plain file")
    try:
        return read_existing(path)
    except InputError:
        raise Unsafe("it cannot be read") from None


def _write(machine: Machine, path: Path, raw: bytes | None, fresh: bytes) -> None:
    """Backup and ledger go first: a run that breaks off leaves a file that is whole, and known or
    not ours."""
    ledger = _read_ledger(machine)
    known = ledger.files.get(str(path))
    if known is None or raw is None or known.written != _sha256(raw):
        known = _Known(
            "", raw is not None, [str(folder) for folder in path.parents if not folder.exists()]
        )
        _keep(machine, path, raw)
    known.written = _sha256(fresh)
    ledger.files[str(path)] = known
    _write_ledger(machine, ledger)
    make_parents(path)
    write_atomic(path, fresh)


def _before(machine: Machine, path: Path, raw: bytes, name: str) -> bytes | None:
    """What the file is to be without us: the backup when nobody else wrote it since; None when it
    is to go."""
    known = _read_ledger(machine).files.get(str(path))
    backup = read_optional(_backup(machine, path))
    if known and known.written == _sha256(raw) and (backup is not None or not known.was_there):
        return backup if known.was_there else None
    agent_hooks = get_hooks(name)
    fresh = remove_handlers(raw, agent_hooks, name)
    is_empty = parse_config(fresh) == agent_hooks.top_level
    return None if is_empty and known is not None and not known.was_there else fresh


def _restore(machine: Machine, path: Path, raw: bytes, fresh: bytes | None) -> None:
    ledger = _read_ledger(machine)
    known = ledger.files.pop(str(path), _Known("", True))
    _keep(machine, path, raw)
    if fresh is None:
        remove_file(path)
        for folder in known.made:
            try:
                os.rmdir(folder)
            except OSError:
                break
    else:
        write_atomic(path, fresh)
    _write_ledger(machine, ledger)


def _backup(machine: Machine, path: Path) -> Path:
    """Where the file is kept as it was before we changed it."""
    return machine.settings / "hooks" / f"{path.name}.{_sha256(os.fsencode(path))[:12]}"


def _keep(machine: Machine, path: Path, raw: bytes | None) -> None:
    if raw is None:
        return
    if not make_folder(machine.settings / "hooks"):
        raise OutputError(
            "cannot write a backup; nothing was changed",
            where=str(machine.settings / "hooks"),
            help="make that folder writable, or set OPEN_TOKEN_HOME to one that is",
        )
    write_private(_backup(machine, path), raw)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _ledger_file(machine: Machine) -> Path:
    return machine.settings / "hooks.json"


def _read_ledger(machine: Machine) -> _Ledger:
    """What we know of the files; without it our handlers are still known by their command."""
    try:
        return msgspec.json.decode(read_optional(_ledger_file(machine)) or b"", type=_Ledger)
    except msgspec.DecodeError:
        return _Ledger()


def _write_ledger(machine: Machine, ledger: _Ledger) -> None:
    make_folder(machine.settings)
    write_atomic(
        _ledger_file(machine),
        msgspec.json.format(msgspec.json.encode(ledger), indent=2) + b"\n",
        0o600,
    )
