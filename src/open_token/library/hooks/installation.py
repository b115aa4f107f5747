"""Install hooks in the configuration files of agents and uninstall them.

A file is replaced atomically after a backup was written. The record of changed files
(`hooks.json`) has the hash of each file as it was left: as long as nobody else changed it,
uninstalling restores the backup.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from open_token.errors import InputError, OutputError
from open_token.library.hooks.config_merge import (
    UnsafeEditError,
    add_handlers,
    find_our_programs,
    parse_config,
    remove_handlers,
    render_snippet,
)
from open_token.library.hooks.handlers import build_command, get_hooks, list_hook_agents
from open_token.library.skills import SCOPES, InstallEnvironment
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
class ConfigChange:
    """What is done to the configuration file of an agent.

    The action is write, update, same or remove; or refuse, with the reason and a snippet that the
    user can paste.
    """

    runtime: str
    action: str
    path: Path
    reason: str = ""
    snippet: str = ""


@dataclass(frozen=True)
class HookInstallation:
    """A configuration file of an agent and the state of the hooks in it."""

    runtime: str
    scope: str
    state: str
    path: Path


class _ChangedFile(msgspec.Struct):
    """A configuration file as it was left."""

    digest: str = msgspec.field(name="written")
    existed: bool = msgspec.field(name="was_there")
    """Whether the file existed before the installation."""
    created_folders: list[str] = msgspec.field(default_factory=list, name="made")


class _ChangedFilesRecord(msgspec.Struct):
    version: Literal[1] = 1
    files: dict[str, _ChangedFile] = {}


def install_hooks(
    machine: InstallEnvironment,
    names: Iterable[str],
    scope: str,
    program: tuple[str, ...],
    folder: Path | None,
    options: tuple[str, ...] = (),
    *,
    dry_run: bool = False,
) -> list[ConfigChange]:
    """Add hooks to the configuration of these agents and return what was done.

    `options` are further words of their command.
    """
    changes = []
    for name in names:
        agent_hooks = get_hooks(name)
        path = _get_config_path(machine, name, scope)
        command = build_command(program, name, folder, options)
        try:
            raw = _read_config(machine, path, scope)
            updated = add_handlers(raw or b"", agent_hooks, name, command)
        except UnsafeEditError as problem:
            snippet = render_snippet(agent_hooks, command)
            changes.append(ConfigChange(name, "refuse", path, str(problem), snippet))
            continue
        if updated == raw:
            changes.append(ConfigChange(name, "same", path))
            continue
        changes.append(ConfigChange(name, "write" if raw is None else "update", path))
        if not dry_run:
            _write_config(machine, path, raw, updated)
    return changes


def uninstall_hooks(
    machine: InstallEnvironment, names: Iterable[str], scope: str, *, dry_run: bool = False
) -> list[ConfigChange]:
    """Remove the hooks of these agents and return what was done.

    A file that nobody else changed becomes byte for byte what it was before.
    """
    changes = []
    for name in names:
        path = _get_config_path(machine, name, scope)
        try:
            raw = _read_config(machine, path, scope)
            if raw is None or not find_our_programs(raw, get_hooks(name), name):
                continue
            restored = _build_restored(machine, path, raw, name)
        except UnsafeEditError as problem:
            reason = f"{problem}; remove the entries that run `hook run --for {name}` yourself"
            changes.append(ConfigChange(name, "refuse", path, reason))
            continue
        changes.append(ConfigChange(name, "remove" if restored is None else "update", path))
        if not dry_run:
            _restore_config(machine, path, raw, restored)
    return changes


def detect_agents(machine: InstallEnvironment) -> list[str]:
    """Return the agents whose directory exists."""
    present = []
    for name in list_hook_agents():
        home = machine.resolve_template(get_hooks(name).home)
        if os.path.isdir(home):
            present.append(name)
    return present


def list_installations(
    machine: InstallEnvironment, program: tuple[str, ...]
) -> list[HookInstallation]:
    """Return the state of the hooks of every agent that is present or has them."""
    present = detect_agents(machine)
    installations = []
    for name in list_hook_agents():
        for scope in SCOPES:
            path = _get_config_path(machine, name, scope)
            state = _get_state(machine, path, scope, name, program)
            if state != "absent" or (scope == "user" and name in present):
                installations.append(HookInstallation(name, scope, state, path))
    return installations


def list_installed_agents(machine: InstallEnvironment, scope: str) -> list[str]:
    """Return the agents that have the hooks in this scope."""
    agents = []
    for name in list_hook_agents():
        path = _get_config_path(machine, name, scope)
        if _get_state(machine, path, scope, name, ()) not in ("absent", "unreadable"):
            agents.append(name)
    return agents


def _get_state(
    machine: InstallEnvironment, path: Path, scope: str, name: str, program: tuple[str, ...]
) -> str:
    agent_hooks = get_hooks(name)
    try:
        raw = _read_config(machine, path, scope)
        programs: list[str] = []
        if raw is not None:
            programs = find_our_programs(raw, agent_hooks, name)
    except UnsafeEditError:
        return "unreadable"
    if not programs:
        return "absent"
    if not all(os.path.exists(installed) for installed in programs):
        return "broken"
    is_of_other_program = bool(program) and any(found != program[0] for found in programs)
    # An earlier version may have known fewer events of the agent.
    lacks_events = len(programs) != len(agent_hooks.events)
    if is_of_other_program or lacks_events:
        return "outdated"
    return "installed"


def _get_config_path(machine: InstallEnvironment, name: str, scope: str) -> Path:
    agent_hooks = get_hooks(name)
    if scope == "project":
        return machine.project / agent_hooks.project
    return machine.resolve_template(agent_hooks.user)


def _read_config(machine: InstallEnvironment, path: Path, scope: str) -> bytes | None:
    """Read a file that may be changed; return None if it does not exist.

    Raise UnsafeEditError for anything but a plain file, and for a link inside a project.
    """
    if scope == "project":
        _refuse_links(machine.project, path)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UnsafeEditError("it is not a plain file")
    try:
        return read_existing(path)
    except InputError:
        raise UnsafeEditError("it cannot be read") from None


def _refuse_links(project: Path, path: Path) -> None:
    for part in (path, *path.parents):
        if part == project:
            return
        if os.path.islink(part):
            raise UnsafeEditError(
                "its path contains a symbolic link, which may lead out of the project"
            )


def _write_config(
    machine: InstallEnvironment, path: Path, raw: bytes | None, updated: bytes
) -> None:
    """Write backup, record and file, in this order, so that a crash leaves a complete file."""
    record = _read_record(machine)
    changed_file = record.files.get(str(path))
    is_as_we_left_it = (
        changed_file is not None and raw is not None and changed_file.digest == _compute_sha256(raw)
    )
    if changed_file is None or not is_as_we_left_it:
        # Somebody else wrote it since: this is the state to which an uninstallation returns.
        missing = [str(folder) for folder in path.parents if not folder.exists()]
        changed_file = _ChangedFile("", raw is not None, missing)
        if raw is not None:
            _write_backup(machine, path, raw)
    changed_file.digest = _compute_sha256(updated)
    record.files[str(path)] = changed_file
    _write_record(machine, record)
    make_parents(path)
    write_atomic(path, updated)


def _build_restored(machine: InstallEnvironment, path: Path, raw: bytes, name: str) -> bytes | None:
    """Return the file without our hooks, or None if it is to be removed."""
    changed_file = _read_record(machine).files.get(str(path))
    if changed_file and changed_file.digest == _compute_sha256(raw):
        if not changed_file.existed:
            return None
        backup = read_optional(_get_backup_path(machine, path))
        if backup is not None:
            return backup
    agent_hooks = get_hooks(name)
    updated = remove_handlers(raw, agent_hooks, name)
    was_created = changed_file is not None and not changed_file.existed
    if was_created and parse_config(updated) == agent_hooks.top_level:
        return None
    return updated


def _restore_config(
    machine: InstallEnvironment, path: Path, raw: bytes, restored: bytes | None
) -> None:
    record = _read_record(machine)
    changed_file = record.files.pop(str(path), None)
    _write_backup(machine, path, raw)
    if restored is not None:
        write_atomic(path, restored)
    else:
        remove_file(path)
        for folder in changed_file.created_folders if changed_file else ():
            try:
                os.rmdir(folder)
            except OSError:
                break
    _write_record(machine, record)


def _get_backup_path(machine: InstallEnvironment, path: Path) -> Path:
    digest = _compute_sha256(os.fsencode(path))[:12]
    return machine.settings / "hooks" / f"{path.name}.{digest}"


def _write_backup(machine: InstallEnvironment, path: Path, raw: bytes) -> None:
    folder = machine.settings / "hooks"
    if not make_folder(folder):
        raise OutputError(
            "cannot write a backup; nothing was changed",
            where=str(folder),
            help="make that folder writable, or set OPEN_TOKEN_HOME to one that is",
        )
    write_private(_get_backup_path(machine, path), raw)


def _compute_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _get_record_path(machine: InstallEnvironment) -> Path:
    return machine.settings / "hooks.json"


def _read_record(machine: InstallEnvironment) -> _ChangedFilesRecord:
    """Read the record; without it, handlers are still recognized by their command."""
    raw = read_optional(_get_record_path(machine))
    try:
        return msgspec.json.decode(raw or b"", type=_ChangedFilesRecord)
    except msgspec.DecodeError:
        return _ChangedFilesRecord()


def _write_record(machine: InstallEnvironment, record: _ChangedFilesRecord) -> None:
    make_folder(machine.settings)
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    write_atomic(_get_record_path(machine), data, 0o600)
