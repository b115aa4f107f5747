"""The settings of this user and this project, and the policy that wins over every command."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from open_token.context import Allowance, OwnRule, Policy, Screen
from open_token.errors import InputError, OutputError, UsageError
from open_token.model import REDACTION_MODES
from open_token.options import NAMES, ExportOptions, guess_of
from open_token.storage.files import Folders, make_folder, read_if_there, read_optional, write_whole

PROJECT_FILE = ".open-token.toml"
ALLOW_FILE = "allow.toml"
"""Beside the user's config.toml; `redact --review` writes it."""
SYSTEM_FILE = Path("/etc/open-token/config.toml")
_PREFIX = "OPEN_TOKEN_"
_OF_A_PROJECT = ("defaults", "rule", "allow")
_OF_A_USER = (*_OF_A_PROJECT, "policy", "team_key", "trust_projects", "sign_key", "allowed_signers")
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z /,-]|['\"][^'\"A-Za-z0-9]{1,3}['\"])+")
SIGNERS_FILE = "allowed_signers"
"""Beside the user's config.toml: whose signatures this user trusts."""


class Settings(msgspec.Struct, frozen=True):
    """Defaults for the options, by rising rank: user file, project file, environment; and the
    policy."""

    defaults: dict[str, Any]
    policy: Policy
    team_key: bytes | None
    folders: Folders
    screen: Screen = msgspec.field(default_factory=Screen)
    remarks: tuple[str, ...] = ()
    """What a file asks for and does not get."""


def load_settings(env: Mapping[str, str], cwd: Path) -> Settings:
    """Read what there is; a file that is wrong is an error that names it."""
    folders = Folders.of(env)
    file = folders.settings / "config.toml"
    user = _read_own(file)
    defaults = _defaults(user, file)
    project_file, project = _of_project(cwd)
    asked = _defaults(project, project_file)
    defaults |= _only_stricter(asked, str(defaults.get("redact", "secrets")))
    for name in NAMES:
        if value := env.get(_PREFIX + name.upper()):
            defaults |= _checked({name: value}, f"{_PREFIX}{name.upper()} in the environment")
    policy = _policy((SYSTEM_FILE, _read_own(SYSTEM_FILE)), (file, user))
    screen, remarks = _screen((file, user), (project_file, project))
    remarks += _without_effect(file, user, _OF_A_USER) + _without_effect(
        project_file, project, _OF_A_PROJECT
    )
    return Settings(defaults, policy, _team_key(user, folders), folders, screen, remarks)


class Signing(msgspec.Struct, frozen=True):
    """With which key this user signs, and where those are listed whom they trust; None where
    nothing is said."""

    key: Path | None
    signers: Path | None


def load_signing(env: Mapping[str, str]) -> Signing:
    """What the user's own file says of signatures; a project has no say in whom its readers
    trust."""
    folder = Folders.of(env).settings
    file = folder / "config.toml"
    user = _read_own(file)
    named = {}
    for name in ("sign_key", "allowed_signers"):
        if not isinstance(value := user.get(name, ""), str):
            raise UsageError(
                f"{name} is not the name of a file",
                where=str(file),
                help=f'write {name} = "~/FILE"',
            )
        named[name] = folder / os.path.expanduser(value) if value else None
    usual = folder / SIGNERS_FILE
    return Signing(
        named["sign_key"], named["allowed_signers"] or (usual if usual.exists() else None)
    )


def _read_own(path: Path) -> dict[str, Any]:
    """A file of the user or the system: it may hold policy, so what cannot be read is never passed
    over."""
    return _parsed(read_if_there(path) or b"", str(path))


def _read(path: Path) -> dict[str, Any] | None:
    raw = read_optional(path)
    return None if raw is None else _parsed(raw, str(path))


def _parsed(raw: bytes, name: str) -> dict[str, Any]:
    if not raw:
        return {}
    import tomllib

    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        found = re.search(r"at line (\d+), column (\d+)", str(problem))
        where = f"{name}:{found[1]}:{found[2]}" if found else name
        remedy = (
            "write a pattern between single quotes"
            if "\\" in str(problem)
            else "mend it or move it away"
        )
        raise UsageError(
            f"this settings file is not TOML{_reason(problem)}", where=where, help=remedy
        ) from None


def _reason(problem: Exception) -> str:
    """What the parser says, where it quotes no more than a sign or two: the rest may be a
    secret."""
    told = str(problem).partition(" (at ")[0]
    return f": {told[:1].lower()}{told[1:]}" if _PLAIN_WORDS.fullmatch(told) else ""


def _without_effect(path: Path, file: dict[str, Any], known: tuple[str, ...]) -> tuple[str, ...]:
    """Words for what stands in a file and does nothing there: mistyped, or not a project's to
    say."""
    told = []
    for name in file:
        if name in known:
            continue
        if name in _OF_A_USER:
            told.append(f"{name} in {path} has no effect: only your own settings may say that")
        elif guess := guess_of(name, known):
            told.append(f"{name} in {path} has no effect; {guess}".rstrip())
    return tuple(told)


def _of_project(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The project file of this folder or the nearest one above it."""
    for place in (folder, *folder.parents):
        if (file := _read(place / PROJECT_FILE)) is not None:
            return place / PROJECT_FILE, file
    return folder / PROJECT_FILE, {}


def _screen(
    user: tuple[Path, dict[str, Any]], project: tuple[Path, dict[str, Any]]
) -> tuple[Screen, tuple[str, ...]]:
    """Rules of both files; what may stay visible is the user's to say, and a project's only if the
    user trusts it."""
    beside = user[0].with_name(ALLOW_FILE)
    listed = (beside, _read(beside) or {})
    files = [
        source for source in (user, listed, project) if "rule" in source[1] or "allow" in source[1]
    ]
    if not files:
        return Screen(), ()
    own = import_module("open_token.passes.own")
    rules: list[Any] = []
    allowed: list[Allowance] = []
    remarks: tuple[str, ...] = ()
    for path, settings in files:
        file = own.File(str(path), (read_optional(path) or b"").decode("utf-8", "replace"))
        rules += own.own_rules(file, settings)
        entries = own.allowances(file, settings)
        if entries and path == project[0] and not _is_trusted(user, path.parent):
            remarks = (
                f"the allow-list of {path} has no effect: your settings do not name its folder in trust_projects",
            )
            continue
        allowed += [replace(entry, path=os.path.expanduser(entry.path)) for entry in entries]
    return Screen(tuple(rules), tuple(allowed)), remarks


def rules_in(path: Path, name: str) -> tuple[OwnRule, ...]:
    """The rules of one file, checked, wherever it lies."""
    raw = read_if_there(path)
    if raw is None:
        raise InputError(
            "there is no such file, and no rule with that id",
            where=name,
            help="see `open-token rules list`",
        )
    return rules_of(raw, name)


def rules_of(raw: bytes, name: str) -> tuple[OwnRule, ...]:
    """The rules that a text in TOML holds, checked; its allow-list is checked with them."""
    settings = _parsed(raw, name)
    own = import_module("open_token.passes.own")
    file = own.File(name, raw.decode("utf-8", "replace"))
    rules: tuple[OwnRule, ...] = own.own_rules(file, settings)
    own.allowances(file, settings)
    if not rules:
        guess = next(
            (f"is {found} meant for it? " for found in settings if guess_of(found, ["rule"])), ""
        )
        raise InputError(
            "there is no rule in this file",
            where=name,
            help=f"{guess}begin each rule with [[rule]]",
        )
    return rules


def allow_for_good(folders: Folders, entries: list[tuple[str, str]]) -> Path:
    """Add keyed hashes of values, each with a remark, to the user's allow-list; gives its file."""
    path = folders.settings / ALLOW_FILE
    before = (
        read_optional(path)
        or b"# Values that are not masked, by keyed hash; `open-token redact --review` adds them.\n"
    ).decode()
    blocks = [f'\n[[allow]]\nvalue = "{value}"\nnote = "{note}"\n' for value, note in entries]
    if not make_folder(folders.settings):
        raise OutputError(
            "cannot write into the settings folder",
            where=str(path),
            help="OPEN_TOKEN_HOME moves it",
        )
    write_whole(path, "".join([before, *blocks]).encode(), 0o600)
    return path


def _is_trusted(user: tuple[Path, dict[str, Any]], folder: Path) -> bool:
    named = user[1].get("trust_projects", [])
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise UsageError(
            "trust_projects is not a list of folders",
            where=str(user[0]),
            help='write trust_projects = ["~/work/acme"]',
        )
    return any(Path(os.path.expanduser(name)) == folder for name in named)


def _defaults(file: dict[str, Any], path: Path) -> dict[str, Any]:
    return _checked(_table(file, "defaults", path), str(path))


def _table(file: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    table = file.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(
            f"{name} is not a table", where=str(path), help=f"write [{name}] and its keys below it"
        )
    return dict(table)


def _checked(words: dict[str, Any], where: str) -> dict[str, Any]:
    """Defaults that are options; an error tells where the wrong one stands."""
    try:
        ExportOptions.of(words)
    except UsageError as problem:
        raise UsageError(problem.what, where=where, help=problem.help) from None
    return words


def _only_stricter(project: dict[str, Any], redact: str) -> dict[str, Any]:
    """A project comes from strangers: its file may mask more than the user would, never less."""
    if (
        project.get("redact")
        in REDACTION_MODES[: REDACTION_MODES.index(redact) if redact in REDACTION_MODES else 0]
    ):
        del project["redact"]
    if project.get("internal") == "full":
        del project["internal"]
    return project


def _policy(*files: tuple[Path, dict[str, Any]]) -> Policy:
    """Every file may only make it stricter."""
    tables = [_checked_policy(_table(file, "policy", path), path) for path, file in files]
    levels = [table.get("min_redact", "none") for table in tables]
    for level, (path, _) in zip(levels, files, strict=True):
        if level not in REDACTION_MODES:
            modes = ", ".join(REDACTION_MODES)
            raise UsageError(
                "policy min_redact is not a level", where=str(path), help=f"it takes {modes}"
            )
    return Policy(
        forbid_internal_full=any(table.get("forbid_internal_full") is True for table in tables),
        never_export_private_keys=any(
            table.get("never_export_private_keys") is True for table in tables
        ),
        min_redact=max(levels, key=REDACTION_MODES.index),
    )


def _checked_policy(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """A policy that cannot be misread: a mistyped name or value would be one that silently does
    nothing."""
    known = list(Policy.__struct_fields__)
    for name, value in table.items():
        if name not in known:
            remedy = f"{guess_of(name, known)}policy takes {', '.join(known)}"
            raise UsageError(f"policy has no {name[:60]}", where=str(path), help=remedy)
        if name != "min_redact" and not isinstance(value, bool):
            raise UsageError(
                f"policy {name} is neither true nor false",
                where=str(path),
                help="write it without quotes",
            )
    return table


def _team_key(user: dict[str, Any], folders: Folders) -> bytes | None:
    named = user.get("team_key")
    if not isinstance(named, str):
        return None
    path = folders.settings / os.path.expanduser(named)
    key = read_optional(path)
    if not key:
        raise UsageError(
            "the team key named in the settings cannot be read",
            where=str(path),
            help="check team_key",
        )
    return key
