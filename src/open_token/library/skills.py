"""Install the shipped skill where agents look for skills, and uninstall it.

The record of installed files (`skills.json`) has the hash of each file that was written. A file
that is not in it, or has another hash, belongs to the user and is neither changed nor removed.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec

from open_token.errors import InputError, OutputError
from open_token.formats.definition import Skill
from open_token.registry import list_agents
from open_token.storage.files import make_folder, read_optional, write_atomic

SKILL_NAME = "stream-of-consciousness"
SCOPES = ("user", "project")
AUTO = "auto"

_SHARED_FOLDER = ".agents/skills"
_NOT_A_FILE = "not a plain file"
_EDITED = "it was changed since it was installed"


class SkillTarget(msgspec.Struct, frozen=True):
    """An agent that the skill can be installed for."""

    title: str
    skill: Skill

    @property
    def user(self) -> str:
        """The skills directory of the user, as a template."""
        return self.skill.user or "{home}/" + _SHARED_FOLDER

    @property
    def project(self) -> str:
        """The skills directory of a project, relative to it."""
        return self.skill.project or _SHARED_FOLDER


_UNIVERSAL = SkillTarget(
    "every agent that reads the shared folder",
    Skill(call="Export this conversation with the stream-of-consciousness skill."),
)


@dataclass(frozen=True)
class InstallEnvironment:
    """The directories and the environment variables that decide where something is installed."""

    home: Path
    project: Path
    env: Mapping[str, str]
    settings: Path

    @property
    def record_path(self) -> Path:
        """The record of installed files."""
        return self.settings / "skills.json"

    def resolve_template(self, template: str) -> Path:
        """Return a path with the directories of this user filled in."""
        home = self.home
        path = template.format(
            home=home,
            claude=self._get_folder("CLAUDE_CONFIG_DIR", home / ".claude"),
            codex=self._get_folder("CODEX_HOME", home / ".codex"),
            config=self._get_folder("XDG_CONFIG_HOME", home / ".config"),
            gemini=self._get_folder("GEMINI_CLI_HOME", home) / ".gemini",
            qwen=self._get_folder("QWEN_HOME", home / ".qwen"),
            copilot=self._get_folder("COPILOT_HOME", home / ".copilot"),
        )
        return Path(path)

    def _get_folder(self, variable: str, default: Path) -> Path:
        value = Path(self.env.get(variable, "").strip())
        # Agents ignore a relative path too: it would mean another folder in every directory.
        if not value.is_absolute():
            return default
        return value


@dataclass(frozen=True)
class FileChange:
    """One file and what is done to it.

    The action is write, update, same or remove; or keep or refuse, with the reason.
    """

    action: str
    path: Path
    reason: str = ""


@dataclass(frozen=True)
class SkillInstallation:
    """A skill directory, the agents it was installed for, and its state."""

    state: str
    runtimes: tuple[str, ...]
    path: Path


class InstalledFolder(msgspec.Struct):
    """One skill directory in the record of installed files."""

    runtimes: list[str] = []
    files: dict[str, list[str]] = {}
    """The hash of each file; two hashes only while a newer version is being written."""
    created_folders: list[str] = msgspec.field(default_factory=list, name="made")
    """Parent directories that did not exist before."""


class InstalledFilesRecord(msgspec.Struct):
    """Every file that was installed, by directory."""

    version: Literal[1] = 1
    folders: dict[str, InstalledFolder] = {}


@cache
def list_targets() -> dict[str, SkillTarget]:
    """Return the agents that the skill can be installed for, by the name that `--for` takes."""
    targets = {
        agent.label: SkillTarget(agent.title, agent.skill) for agent in list_agents() if agent.skill
    }
    return targets | {"universal": _UNIVERSAL}


def read_skill_text() -> str:
    """Return the skill as it is shipped, without what is added for an agent."""
    return _read_shipped_files()["SKILL.md"].decode()


def get_skill_folder() -> Path:
    """Return the directory of the shipped skill."""
    return Path(str(_get_shipped_root()))


def detect_agents(machine: InstallEnvironment) -> list[str]:
    """Return the agents whose directory or command exists."""
    return [name for name, target in list_targets().items() if _is_present(target, machine)]


def _is_present(target: SkillTarget, machine: InstallEnvironment) -> bool:
    if any(os.path.isdir(machine.resolve_template(folder)) for folder in target.skill.folders):
        return True
    path = machine.env.get("PATH", "")
    return any(shutil.which(command, path=path) for command in target.skill.commands)


def get_install_folder(machine: InstallEnvironment, name: str, scope: str) -> Path:
    """Return the directory in which an agent looks for this skill."""
    target = list_targets()[name]
    if scope == "project":
        return _resolve_links(machine.project) / target.project / SKILL_NAME
    return _resolve_links(machine.resolve_template(target.user)) / SKILL_NAME


def install_skill(
    machine: InstallEnvironment, names: Iterable[str], scope: str, *, dry_run: bool = False
) -> list[FileChange]:
    """Install the skill for these agents and return what was done.

    A directory with a file that belongs to the user is left as it is.
    """
    record = _read_record(machine)
    changes: list[FileChange] = []
    for folder, group in _group_by_folder(machine, names, scope).items():
        installed = record.folders.get(str(folder), InstalledFolder())
        # Several agents may share a folder: the files serve all of them.
        agents = sorted({*installed.runtimes, *group})
        files = _build_files(agents)
        planned = _check_links(machine, folder, scope)
        if not planned:
            planned = _plan_changes(folder, files, installed)
        refused = [change for change in planned if change.action == "refuse"]
        if refused:
            # All or nothing: half a skill would be worse than none.
            changes += refused
            continue
        changes += planned
        if not dry_run:
            _apply_changes(machine, record, folder, agents, files, planned)
    return changes


def uninstall_skill(
    machine: InstallEnvironment, names: Iterable[str], scope: str, *, dry_run: bool = False
) -> list[FileChange]:
    """Remove unchanged installed files and return what was done.

    A directory that is still installed for another agent stays.
    """
    record = _read_record(machine)
    changes: list[FileChange] = []
    for folder, group in _group_by_folder(machine, names, scope).items():
        installed = record.folders.get(str(folder))
        if installed is None or group.isdisjoint(installed.runtimes):
            continue
        agents = sorted(set(installed.runtimes) - group)
        files: dict[str, bytes] = {}
        if agents:
            files = _build_files(agents)
        refused = _check_links(machine, folder, scope)
        planned = refused or _plan_removal(folder, files, installed)
        changes += planned
        if not refused and not dry_run:
            _apply_changes(machine, record, folder, agents, files, planned)
    return changes


def list_installed_agents(machine: InstallEnvironment, scope: str) -> list[str]:
    """Return the agents that the skill was installed for in this scope."""
    folders = _read_record(machine).folders
    agents = []
    for name in list_targets():
        installed = folders.get(str(get_install_folder(machine, name, scope)))
        if installed and name in installed.runtimes:
            agents.append(name)
    return agents


def list_installations(machine: InstallEnvironment) -> list[SkillInstallation]:
    """Return every installed directory, then the agents that the skill is not installed for."""
    record = _read_record(machine)
    installations = []
    for path, entry in sorted(record.folders.items()):
        state = _get_state(Path(path), entry)
        installations.append(SkillInstallation(state, tuple(entry.runtimes), Path(path)))
    for name in detect_agents(machine):
        folder = get_install_folder(machine, name, "user")
        installed = record.folders.get(str(folder))
        if installed is None:
            state = "foreign" if os.path.lexists(folder) else "absent"
        elif name not in installed.runtimes:
            state = "shared"
        else:
            continue
        installations.append(SkillInstallation(state, (name,), folder))
    return installations


def _resolve_links(path: Path) -> Path:
    """Return the path behind all links; unlike Path.resolve, circular links are accepted."""
    return Path(os.path.realpath(path))


def _get_shipped_root() -> Traversable:
    return resources.files("open_token").joinpath("plugin", "skills", SKILL_NAME)


def _read_shipped_files() -> dict[str, bytes]:
    """Return the files to install.

    SKILL.md comes last, so that an agent sees the skill only when it is complete.
    """
    root = _get_shipped_root()
    names = []
    for item in root.joinpath("references").iterdir():
        if item.name.endswith(".md"):
            names.append(f"references/{item.name}")
    names.sort()
    names += ["agents/openai.yaml", "SKILL.md"]
    files: dict[str, bytes] = {}
    for name in names:
        files[name] = root.joinpath(*name.split("/")).read_bytes()
    return files


def _build_files(agents: Iterable[str]) -> dict[str, bytes]:
    """Return the files with the front matter that these agents need together."""
    files = _read_shipped_files()
    # Agents ignore keys of others. A line that several of them need must stand there once.
    lines: dict[str, None] = {}
    for name, target in list_targets().items():
        if name in agents:
            lines |= dict.fromkeys(target.skill.frontmatter)
    front_matter, end, body = files["SKILL.md"].partition(b"\n---\n")
    for line in lines:
        front_matter += b"\n" + line.encode()
    files["SKILL.md"] = front_matter + end + body
    return files


def _group_by_folder(
    machine: InstallEnvironment, names: Iterable[str], scope: str
) -> dict[Path, set[str]]:
    groups: dict[Path, set[str]] = {}
    for name in names:
        groups.setdefault(get_install_folder(machine, name, scope), set()).add(name)
    return groups


def _check_links(machine: InstallEnvironment, folder: Path, scope: str) -> list[FileChange]:
    """Return a refusal if the path contains a link: files must stay inside the project."""
    stop = _resolve_links(machine.project) if scope == "project" else folder.parent
    for path in (folder, *folder.parents):
        if path == stop:
            return []
        if os.path.islink(path):
            reason = "it is a symbolic link, and its target may belong to somebody else"
            return [FileChange("refuse", path, reason)]
    return []


def _plan_changes(
    folder: Path, files: Mapping[str, bytes], installed: InstalledFolder
) -> list[FileChange]:
    changes = []
    for name, data in files.items():
        known_hashes = installed.files.get(name, [])
        changes.append(_plan_file(folder / name, data, known_hashes))
    # What an earlier version installed and this one does not have.
    for name, known_hashes in installed.files.items():
        if name in files:
            continue
        path = folder / name
        digest = _hash_file(path)
        if not digest:
            continue
        if digest in known_hashes:
            changes.append(FileChange("remove", path))
        else:
            changes.append(FileChange("keep", path, _EDITED))
    return changes


def _plan_removal(
    folder: Path, files: Mapping[str, bytes], installed: InstalledFolder
) -> list[FileChange]:
    """Return the changes of an uninstallation: nothing is written anew, edited files are kept."""
    changes = []
    for change in _plan_changes(folder, files, installed):
        if change.action == "refuse":
            changes.append(FileChange("keep", change.path, change.reason))
        elif change.action != "write":
            changes.append(change)
    return changes


def _plan_file(path: Path, data: bytes, known_hashes: list[str]) -> FileChange:
    digest = _hash_file(path)
    if not digest:
        return FileChange("write", path)
    if digest == _compute_sha256(data):
        return FileChange("same", path)
    if digest in known_hashes:
        return FileChange("update", path)
    if digest == _NOT_A_FILE:
        return FileChange("refuse", path, "it is a link, a folder or not readable")
    reason = _EDITED if known_hashes else "open-token did not write it"
    return FileChange("refuse", path, reason)


def _hash_file(path: Path) -> str:
    """Return the hash of a file, "" if there is none, or _NOT_A_FILE."""
    if not os.path.lexists(path):
        return ""
    if os.path.islink(path) or os.path.islink(path.parent) or not os.path.isfile(path):
        return _NOT_A_FILE
    data = read_optional(path)
    if data is None:
        return _NOT_A_FILE
    return _compute_sha256(data)


def _compute_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _apply_changes(
    machine: InstallEnvironment,
    record: InstalledFilesRecord,
    folder: Path,
    agents: list[str],
    files: Mapping[str, bytes],
    changes: list[FileChange],
) -> None:
    """Write and remove files.

    The record is written first, with the old and the new hash of each file: after a crash,
    installed files are still recognized in either version.
    """
    before = record.folders.get(str(folder), InstalledFolder())
    written: dict[str, bytes] = {}
    removed: list[str] = []
    for change in changes:
        name = change.path.relative_to(folder).as_posix()
        if change.action in ("write", "update"):
            written[name] = files[name]
        elif change.action == "remove":
            removed.append(name)
    has_same_agents = agents == before.runtimes or not before.files
    if not written and not removed and has_same_agents:
        return

    created = list(dict.fromkeys([*before.created_folders, *_list_missing_parents(folder)]))
    known_hashes = dict(before.files)
    for name, data in written.items():
        old_hashes = before.files.get(name, [])
        known_hashes[name] = sorted({*old_hashes, _compute_sha256(data)})
    all_agents = sorted({*before.runtimes, *agents})
    record.folders[str(folder)] = InstalledFolder(all_agents, known_hashes, created)
    _write_record(machine, record)

    _write_files(folder, written)
    _remove_files(folder, removed)

    # Now every file is in its new version, and only that one is ours.
    remaining = {name: known for name, known in before.files.items() if name in files}
    for name, data in written.items():
        remaining[name] = [_compute_sha256(data)]
    if agents and remaining:
        record.folders[str(folder)] = InstalledFolder(agents, remaining, created)
    else:
        _remove_empty_folders(folder, created)
        del record.folders[str(folder)]
    _write_record(machine, record)


def _list_missing_parents(folder: Path) -> list[str]:
    """Return the parents of a directory that do not exist yet, deepest first."""
    return [str(path) for path in folder.parents if not os.path.exists(path)]


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        except OSError as problem:
            raise _build_write_error(path, problem.strerror) from None
        except OutputError as problem:
            reason = problem.what.removeprefix("cannot write: ")
            raise _build_write_error(path, reason) from None


def _remove_files(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = folder / name
        try:
            path.unlink(missing_ok=True)
            # A subfolder of the skill goes with its last file.
            if path.parent != folder and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as problem:
            raise _build_write_error(path, problem.strerror) from None


def _remove_empty_folders(folder: Path, created: Iterable[str]) -> None:
    """Remove created directories, deepest first, up to the first one that is not empty."""
    for path in (folder, *map(Path, created)):
        try:
            path.rmdir()
        except OSError:
            return


def _build_write_error(path: Path, reason: str | None) -> OutputError:
    return OutputError(
        f"cannot change the skill's files: {reason or 'the system refused'}",
        where=str(path),
        help="make that folder writable and run the same command again, or choose another --scope",
    )


def _get_state(folder: Path, installed: InstalledFolder) -> str:
    changes = _plan_changes(folder, _build_files(installed.runtimes), installed)
    actions = {change.action for change in changes}
    if actions & {"refuse", "keep"}:
        return "edited"
    if "write" in actions:
        return "incomplete"
    if actions & {"update", "remove"}:
        return "outdated"
    return "installed"


def _read_record(machine: InstallEnvironment) -> InstalledFilesRecord:
    data = read_optional(machine.record_path)
    # A record that exists but cannot be read must not count as none: our files would be refused.
    if data is None and not os.path.lexists(machine.record_path):
        return InstalledFilesRecord()
    try:
        return msgspec.json.decode(data or b"", type=InstalledFilesRecord)
    except msgspec.DecodeError:
        raise InputError(
            "the list of installed skill files cannot be read",
            where=str(machine.record_path),
            help="move that file away; files that are already installed are then treated as yours "
            "and are not changed",
        ) from None


def _write_record(machine: InstallEnvironment, record: InstalledFilesRecord) -> None:
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    try:
        make_folder(machine.settings)
        write_atomic(machine.record_path, data)
    except OutputError:
        raise OutputError(
            "cannot write the list of installed skill files",
            where=str(machine.record_path),
            help="make that folder writable, or set OPEN_TOKEN_HOME to one that is",
        ) from None
