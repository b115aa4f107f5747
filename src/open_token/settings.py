"""The settings of this user and this project, and the policy that wins over every command."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from open_token.context import Policy
from open_token.errors import UsageError
from open_token.files import Folders, read_optional
from open_token.model import REDACTION_MODES
from open_token.options import NAMES, ExportOptions

PROJECT_FILE = ".open-token.toml"
SYSTEM_FILE = Path("/etc/open-token/config.toml")
_PREFIX = "OPEN_TOKEN_"


@dataclass(frozen=True)
class Settings:
    """Defaults for the options, by rising rank: user file, project file, environment; and the policy."""

    defaults: dict[str, Any]
    policy: Policy
    team_key: bytes | None
    folders: Folders


def load_settings(env: Mapping[str, str], cwd: Path) -> Settings:
    """Read what there is; a file that is wrong is an error that names it."""
    folders = Folders.of(env)
    file = folders.settings / "config.toml"
    user = _read(file) or {}
    defaults = _defaults(user, file)
    defaults |= _only_stricter(_of_project(cwd), str(defaults.get("redact", "secrets")))
    for name in NAMES:
        if value := env.get(_PREFIX + name.upper()):
            defaults |= _checked({name: value}, f"{_PREFIX}{name.upper()} in the environment")
    policy = _policy((SYSTEM_FILE, _read(SYSTEM_FILE) or {}), (file, user))
    return Settings(defaults, policy, _team_key(user, folders), folders)


def _read(path: Path) -> dict[str, Any] | None:
    raw = read_optional(path)
    if raw is None:
        return None
    import tomllib

    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise UsageError("this settings file is not TOML", where=str(path), help="mend it or move it away") from None


def _of_project(folder: Path) -> dict[str, Any]:
    """The defaults in the project file of this folder or the nearest one above it."""
    for place in (folder, *folder.parents):
        if (file := _read(place / PROJECT_FILE)) is not None:
            return _defaults(file, place / PROJECT_FILE)
    return {}


def _defaults(file: dict[str, Any], path: Path) -> dict[str, Any]:
    return _checked(_table(file, "defaults", path), str(path))


def _table(file: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    table = file.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{name} is not a table", where=str(path), help=f"write [{name}] and its keys below it")
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
    if project.get("redact") in REDACTION_MODES[: REDACTION_MODES.index(redact) if redact in REDACTION_MODES else 0]:
        del project["redact"]
    if project.get("internal") == "full":
        del project["internal"]
    return project


def _policy(*files: tuple[Path, dict[str, Any]]) -> Policy:
    """Every file may only make it stricter."""
    tables = [_table(file, "policy", path) for path, file in files]
    levels = [table.get("min_redact", "none") for table in tables]
    for level, (path, _) in zip(levels, files, strict=True):
        if level not in REDACTION_MODES:
            modes = ", ".join(REDACTION_MODES)
            raise UsageError("policy min_redact is not a level", where=str(path), help=f"it takes {modes}")
    return Policy(
        forbid_internal_full=any(table.get("forbid_internal_full") is True for table in tables),
        never_export_private_keys=any(table.get("never_export_private_keys") is True for table in tables),
        min_redact=max(levels, key=REDACTION_MODES.index),
    )


def _team_key(user: dict[str, Any], folders: Folders) -> bytes | None:
    named = user.get("team_key")
    if not isinstance(named, str):
        return None
    path = folders.settings / os.path.expanduser(named)
    key = read_optional(path)
    if not key:
        raise UsageError("the team key named in the settings cannot be read", where=str(path), help="check team_key")
    return key
