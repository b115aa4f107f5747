"""The skill we ship: put where each runtime looks, and taken away again, without touching a file
that is not ours."""

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

NAME = "stream-of-consciousness"
SCOPES = ("user", "project")
AUTO = "auto"

_SHARED = ".agents/skills"
_STRANGE = "not a plain file"


class Target(msgspec.Struct, frozen=True):
    """An agent that the skill can be installed for."""

    title: str
    skill: Skill

    @property
    def user(self) -> str:
        """The skills directory of the user, as a template."""
        return self.skill.user or "{home}/" + _SHARED

    @property
    def project(self) -> str:
        """The skills directory of a project, relative to it."""
        return self.skill.project or _SHARED


_UNIVERSAL = Target(
    "every agent that reads the shared folder",
    Skill(call="Export this conversation with the stream-of-consciousness skill."),
)


@dataclass(frozen=True)
class Machine:
    """What the edge knows: the person's home, the project's folder, the environment, the settings
    folder."""

    home: Path
    project: Path
    env: Mapping[str, str]
    settings: Path

    @property
    def ledger(self) -> Path:
        return self.settings / "skills.json"

    def fill(self, template: str) -> Path:
        """A path of the table above with this machine's folders in it."""
        home = self.home
        return Path(
            template.format(
                home=home,
                claude=self._folder("CLAUDE_CONFIG_DIR", home / ".claude"),
                codex=self._folder("CODEX_HOME", home / ".codex"),
                config=self._folder("XDG_CONFIG_HOME", home / ".config"),
                gemini=self._folder("GEMINI_CLI_HOME", home) / ".gemini",
                qwen=self._folder("QWEN_HOME", home / ".qwen"),
                copilot=self._folder("COPILOT_HOME", home / ".copilot"),
            )
        )

    def _folder(self, variable: str, usual: Path) -> Path:
        given = Path(self.env.get(variable, "").strip())
        return given if given.is_absolute() else usual


@dataclass(frozen=True)
class Step:
    """One file and what is done to it: write, update, same, remove; or keep and refuse, with the
    reason."""

    action: str
    path: Path
    why: str = ""


@dataclass(frozen=True)
class Place:
    """One skill folder, the runtimes it was installed for, and how it stands."""

    state: str
    runtimes: tuple[str, ...]
    path: Path


class Entry(msgspec.Struct):
    """What the ledger knows of one skill folder; a file has two hashes only while a newer version
    is being written."""

    runtimes: list[str] = []
    files: dict[str, list[str]] = {}
    made: list[str] = []


class Ledger(msgspec.Struct):
    """Every file this command wrote, so that it never touches another."""

    version: Literal[1] = 1
    folders: dict[str, Entry] = {}


@cache
def list_targets() -> dict[str, Target]:
    """Return the agents that the skill can be installed for, by the name that `--for` takes."""
    targets = {
        agent.label: Target(agent.title, agent.skill) for agent in list_agents() if agent.skill
    }
    return targets | {"universal": _UNIVERSAL}


def text() -> str:
    """The skill as it is shipped, without what the installer adds for a runtime."""
    return _shipped()["SKILL.md"].decode()


def folder() -> Path:
    """Where the shipped skill lies on this machine."""
    return Path(str(_root()))


def detect(machine: Machine) -> list[str]:
    """The runtimes whose folder or command is here."""
    path = machine.env.get("PATH", "")
    return [
        name
        for name, target in list_targets().items()
        if any(os.path.isdir(machine.fill(folder)) for folder in target.skill.folders)
        or any(shutil.which(command, path=path) for command in target.skill.commands)
    ]


def folder_for(machine: Machine, name: str, scope: str) -> Path:
    """The folder in which that runtime looks for this skill."""
    if scope == "project":
        return _real(machine.project) / list_targets()[name].project / NAME
    return _real(machine.fill(list_targets()[name].user)) / NAME


def install(
    machine: Machine, names: Iterable[str], scope: str, *, dry_run: bool = False
) -> list[Step]:
    """Put the skill where these runtimes look; a folder with a file that is not ours is left as it
    is."""
    ledger = _read_ledger(machine)
    done: list[Step] = []
    for target, group in _targets(machine, names, scope).items():
        entry = ledger.folders.get(str(target), Entry())
        owners = sorted({*entry.runtimes, *group})
        wanted = _wanted(owners)
        steps = _linked(machine, target, scope) or _plan(target, wanted, entry)
        refused = [step for step in steps if step.action == "refuse"]
        done += refused or steps
        if not refused and not dry_run:
            _carry_out(machine, ledger, target, owners, wanted, steps)
    return done


def uninstall(
    machine: Machine, names: Iterable[str], scope: str, *, dry_run: bool = False
) -> list[Step]:
    """Take away what the ledger says is ours and unchanged; a folder that another runtime uses
    stays for it."""
    ledger = _read_ledger(machine)
    done: list[Step] = []
    for target, group in _targets(machine, names, scope).items():
        entry = ledger.folders.get(str(target))
        if entry is None or group.isdisjoint(entry.runtimes):
            continue
        owners = sorted(set(entry.runtimes) - group)
        wanted = _wanted(owners) if owners else {}
        refused = _linked(machine, target, scope)
        steps = refused or [
            _kept(step) for step in _plan(target, wanted, entry) if step.action != "write"
        ]
        done += steps
        if not refused and not dry_run:
            _carry_out(machine, ledger, target, owners, wanted, steps)
    return done


def installed_for(machine: Machine, scope: str) -> list[str]:
    """The runtimes that the skill was installed for in this scope."""
    folders = _read_ledger(machine).folders
    owners = {
        name: folders.get(str(folder_for(machine, name, scope)), Entry()).runtimes
        for name in list_targets()
    }
    return [name for name in list_targets() if name in owners[name]]


def status(machine: Machine) -> list[Place]:
    """Every folder in the ledger, then the runtimes found here that the skill was not installed
    for."""
    ledger = _read_ledger(machine)
    places = [
        Place(_state(Path(path), entry), tuple(entry.runtimes), Path(path))
        for path, entry in sorted(ledger.folders.items())
    ]
    for name in detect(machine):
        target = folder_for(machine, name, "user")
        if str(target) in ledger.folders:
            if name not in ledger.folders[str(target)].runtimes:
                places.append(Place("shared", (name,), target))
        else:
            places.append(
                Place("foreign" if os.path.lexists(target) else "absent", (name,), target)
            )
    return places


def _real(path: Path) -> Path:
    """The path behind all links; unlike Path.resolve it takes links that go in a circle."""
    return Path(os.path.realpath(path))


def _root() -> Traversable:
    return resources.files("open_token").joinpath("skill", NAME)


def _shipped() -> dict[str, bytes]:
    """The files to install; SKILL.md last, so that a runtime sees the skill only when it is
    whole."""
    root = _root()
    references = sorted(
        item.name for item in root.joinpath("references").iterdir() if item.name.endswith(".md")
    )
    names = [*(f"references/{name}" for name in references), "agents/openai.yaml", "SKILL.md"]
    return {name: root.joinpath(*name.split("/")).read_bytes() for name in names}


def _wanted(owners: Iterable[str]) -> dict[str, bytes]:
    """The files as these runtimes together need them."""
    files = _shipped()
    lines = dict.fromkeys(
        line
        for name, target in list_targets().items()
        if name in owners
        for line in target.skill.frontmatter
    )
    head, end, body = files["SKILL.md"].partition(b"\n---\n")
    files["SKILL.md"] = b"\n".join([head, *(line.encode() for line in lines)]) + end + body
    return files


def _targets(machine: Machine, names: Iterable[str], scope: str) -> dict[Path, set[str]]:
    targets: dict[Path, set[str]] = {}
    for name in names:
        targets.setdefault(folder_for(machine, name, scope), set()).add(name)
    return targets


def _linked(machine: Machine, target: Path, scope: str) -> list[Step]:
    """A refusal when the way to the target leads through a link: a project's files must stay inside
    the project."""
    stop = _real(machine.project) if scope == "project" else target.parent
    for path in (target, *target.parents):
        if path == stop:
            return []
        if os.path.islink(path):
            return [
                Step(
                    "refuse", path, "it is a symbolic link, and what lies behind it may not be ours"
                )
            ]
    return []


def _plan(target: Path, wanted: Mapping[str, bytes], entry: Entry) -> list[Step]:
    steps = [_step(target / name, data, entry.files.get(name, [])) for name, data in wanted.items()]
    for name, known in entry.files.items():
        found = _digest(target / name)
        if name not in wanted and found:
            steps.append(_removal(target / name, ours=found in known))
    return steps


def _step(path: Path, data: bytes, known: list[str]) -> Step:
    found = _digest(path)
    if not found:
        return Step("write", path)
    if found == _sha256(data):
        return Step("same", path)
    if found in known:
        return Step("update", path)
    if found == _STRANGE:
        return Step("refuse", path, "it is a link, a folder or not readable")
    return Step(
        "refuse",
        path,
        "it was changed since it was installed" if known else "open-token did not write it",
    )


def _removal(path: Path, *, ours: bool) -> Step:
    return (
        Step("remove", path)
        if ours
        else Step("keep", path, "it was changed since it was installed")
    )


def _kept(step: Step) -> Step:
    return Step("keep", step.path, step.why) if step.action == "refuse" else step


def _digest(path: Path) -> str:
    """Empty when nothing is there, else the hash, else that it is no plain file."""
    if not os.path.lexists(path):
        return ""
    linked = os.path.islink(path) or os.path.islink(path.parent)
    data = read_optional(path) if os.path.isfile(path) and not linked else None
    return _STRANGE if data is None else _sha256(data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _carry_out(
    machine: Machine,
    ledger: Ledger,
    target: Path,
    owners: list[str],
    wanted: Mapping[str, bytes],
    steps: list[Step],
) -> None:
    """The ledger goes first with both hashes, so that a run that breaks off never makes our own
    file a stranger."""
    before = ledger.folders.get(str(target), Entry())
    names = {step.path.relative_to(target).as_posix(): step.action for step in steps}
    fresh = {
        name: _sha256(wanted[name])
        for name, action in names.items()
        if action in ("write", "update")
    }
    if (
        not fresh
        and (owners == before.runtimes or not before.files)
        and "remove" not in names.values()
    ):
        return
    made = list(dict.fromkeys([*before.made, *_missing(target)]))
    everyone = sorted({*before.runtimes, *owners})
    ledger.folders[str(target)] = Entry(
        everyone, {**before.files, **_both(before.files, fresh)}, made
    )
    _write_ledger(machine, ledger)
    _write_files(target, {name: wanted[name] for name in fresh})
    _remove_files(target, [name for name, action in names.items() if action == "remove"])
    held = {name: known for name, known in before.files.items() if name in wanted}
    after = Entry(owners, held | {name: [digest] for name, digest in fresh.items()}, made)
    if owners and after.files:
        ledger.folders[str(target)] = after
    else:
        _remove_folders(target, made)
        del ledger.folders[str(target)]
    _write_ledger(machine, ledger)


def _both(known: Mapping[str, list[str]], fresh: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: sorted({*known.get(name, []), digest}) for name, digest in fresh.items()}


def _missing(target: Path) -> list[str]:
    """The folders above the target that are not there yet, deepest first."""
    return [str(path) for path in target.parents if not os.path.exists(path)]


def _write_files(target: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = target / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        except OSError as problem:
            raise _cannot_change(path, problem.strerror) from None
        except OutputError as problem:
            raise _cannot_change(path, problem.what.removeprefix("cannot write: ")) from None


def _remove_files(target: Path, names: Iterable[str]) -> None:
    for name in names:
        path = target / name
        try:
            path.unlink(missing_ok=True)
            if path.parent != target and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as problem:
            raise _cannot_change(path, problem.strerror) from None


def _remove_folders(target: Path, made: Iterable[str]) -> None:
    """Empty folders of ours, deepest first; the first one that holds anything ends it."""
    for path in (target, *map(Path, made)):
        try:
            path.rmdir()
        except OSError:
            return


def _cannot_change(path: Path, reason: str | None) -> OutputError:
    return OutputError(
        f"cannot change the skill's files: {reason or 'the system refused'}",
        where=str(path),
        help="make that folder writable and run the same command again, or choose another --scope",
    )


def _state(target: Path, entry: Entry) -> str:
    actions = {step.action for step in _plan(target, _wanted(entry.runtimes), entry)}
    for action, state in (("refuse", "edited"), ("keep", "edited"), ("write", "incomplete")):
        if action in actions:
            return state
    return "outdated" if actions & {"update", "remove"} else "installed"


def _read_ledger(machine: Machine) -> Ledger:
    data = read_optional(machine.ledger)
    if data is None and not os.path.lexists(machine.ledger):
        return Ledger()
    try:
        return msgspec.json.decode(data or b"", type=Ledger)
    except msgspec.DecodeError:
        raise InputError(
            "the list of installed skill files cannot be read",
            where=str(machine.ledger),
            help="move that file away; skill files that are already installed then count as yours and stay",
        ) from None


def _write_ledger(machine: Machine, ledger: Ledger) -> None:
    try:
        make_folder(machine.settings)
        write_atomic(
            machine.ledger, msgspec.json.format(msgspec.json.encode(ledger), indent=2) + b"\n"
        )
    except OutputError:
        raise OutputError(
            "cannot write the list of installed skill files",
            where=str(machine.ledger),
            help="make that folder writable, or set OPEN_TOKEN_HOME to one that is",
        ) from None
