"""Settings of the user and the project, and the policy that no command overrides."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.context import AllowEntry, CustomRule, Policy, RedactionOverrides
from open_token.errors import InputError, OutputError, UsageError
from open_token.model.document import REDACTION_MODES
from open_token.options import OPTION_NAMES, ExportOptions, suggest_match
from open_token.storage.files import (
    Folders,
    make_folder,
    read_existing,
    read_optional,
    write_atomic,
)

PROJECT_FILE = ".open-token.toml"
SYSTEM_FILE = Path("/etc/open-token/config.toml")
ALLOW_FILE = "allow.toml"
"""In the settings folder; `redact --review` adds entries to it."""
SIGNERS_FILE = "allowed_signers"
"""In the settings folder: whose signatures the user trusts."""
_VARIABLE_PREFIX = "OPEN_TOKEN_"
_PROJECT_KEYS = ("defaults", "rule", "allow")
_USER_KEYS = (
    *_PROJECT_KEYS,
    "policy",
    "team_key",
    "trust_projects",
    "sign_key",
    "allowed_signers",
)
_HARMLESS_MESSAGE = re.compile(r"(?:[A-Za-z /,-]|['\"][^'\"A-Za-z0-9]{1,3}['\"])+")
"""A message of the TOML parser that quotes nothing but punctuation."""
_ALLOW_FILE_HEAD = (
    b"# Values that are not masked, by keyed hash; `open-token redact --review` adds them.\n"
)


class Settings(msgspec.Struct, frozen=True):
    """Option defaults (from environment, project file and user file) and the policy."""

    defaults: dict[str, Any]
    policy: Policy
    team_key: bytes | None
    folders: Folders
    screen: RedactionOverrides = msgspec.field(default_factory=RedactionOverrides)
    warnings: tuple[str, ...] = ()
    """About entries of a file that have no effect."""


class SigningSettings(msgspec.Struct, frozen=True):
    """The key with which the user signs, and the file of trusted signers."""

    key: Path | None
    signers: Path | None


class _File(NamedTuple):
    """A settings file and its content; empty if there is none."""

    path: Path
    content: dict[str, Any]


def load_settings(env: Mapping[str, str], cwd: Path) -> Settings:
    """Read all settings; an invalid file is an error that names it."""
    folders = Folders.of(env)
    user = _read_trusted_file(folders.settings / "config.toml")
    project = _find_project_file(cwd)
    defaults = _read_defaults(user)
    user_redact = str(defaults.get("redact", "secrets"))
    defaults |= _keep_stricter(_read_defaults(project), user_redact)
    for name in OPTION_NAMES:
        variable = _VARIABLE_PREFIX + name.upper()
        value = env.get(variable)
        if value:
            defaults |= _check_options({name: value}, f"{variable} in the environment")
    policy = _read_policy(_read_trusted_file(SYSTEM_FILE), user)
    screen, warnings = _read_overrides(user, project)
    warnings += _find_ineffective_keys(user, _USER_KEYS)
    warnings += _find_ineffective_keys(project, _PROJECT_KEYS)
    return Settings(defaults, policy, _read_team_key(user, folders), folders, screen, warnings)


def load_signing_settings(env: Mapping[str, str]) -> SigningSettings:
    """Read the signing settings of the user; a project must not decide whom to trust."""
    folder = Folders.of(env).settings
    user = _read_trusted_file(folder / "config.toml")
    key = _read_path(user, "sign_key")
    signers = _read_path(user, "allowed_signers")
    default_signers = folder / SIGNERS_FILE
    if signers is None and default_signers.exists():
        signers = default_signers
    return SigningSettings(key, signers)


def _read_path(user: _File, name: str) -> Path | None:
    """Return the path that a key names, relative to the settings folder."""
    value = user.content.get(name, "")
    if not isinstance(value, str):
        raise UsageError(
            f"{name} must be a file name", where=str(user.path), help=f'write {name} = "~/FILE"'
        )
    if value:
        return user.path.parent / os.path.expanduser(value)
    return None


def _read_trusted_file(path: Path) -> _File:
    """Read a file of the user or the system.

    It may hold a policy, so a file that exists and cannot be read is an error."""
    return _File(path, _parse_toml(read_existing(path) or b"", str(path)))


def _find_project_file(folder: Path) -> _File:
    """Read the project file of a folder or of the nearest folder above it."""
    for candidate in (folder, *folder.parents):
        path = candidate / PROJECT_FILE
        raw = read_optional(path)
        if raw is not None:
            return _File(path, _parse_toml(raw, str(path)))
    return _File(folder / PROJECT_FILE, {})


def _parse_toml(raw: bytes, name: str) -> dict[str, Any]:
    if not raw:
        return {}
    import tomllib

    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        message = str(problem)
        position = re.search(r"at line (\d+), column (\d+)", message)
        where = f"{name}:{position[1]}:{position[2]}" if position else name
        remedy = "fix it or move it away"
        if "\\" in message:
            remedy = "write a pattern in single quotes"
        raise UsageError(
            f"invalid TOML in the settings file{_quote_parser(message)}", where=where, help=remedy
        ) from None


def _quote_parser(message: str) -> str:
    """Return the parser's message, unless it quotes text, which may be a secret."""
    reason = message.partition(" (at ")[0]
    if not _HARMLESS_MESSAGE.fullmatch(reason):
        return ""
    return f": {reason[:1].lower()}{reason[1:]}"


def _find_ineffective_keys(file: _File, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return warnings about keys that are mistyped, or not allowed in a project file."""
    warnings = []
    # An unknown key without a similar one may belong to a newer version: no warning.
    for name in file.content:
        if name in known:
            continue
        guess = suggest_match(name, known)
        if name in _USER_KEYS:
            reason = "only your own settings may set it"
            warnings.append(f"{name} in {file.path} has no effect: {reason}")
        elif guess:
            warnings.append(f"{name} in {file.path} has no effect; {guess}".rstrip())
    return tuple(warnings)


def _read_overrides(user: _File, project: _File) -> tuple[RedactionOverrides, tuple[str, ...]]:
    """Read custom rules and allow-lists.

    The allow-list of a project counts only if the user trusts the project."""
    allow_path = user.path.with_name(ALLOW_FILE)
    allow_list = _File(allow_path, _parse_toml(read_optional(allow_path) or b"", str(allow_path)))
    files = []
    for file in (user, allow_list, project):
        if "rule" in file.content or "allow" in file.content:
            files.append(file)
    if not files:
        return RedactionOverrides(), ()
    # Loaded only for custom rules: it brings the redaction engine.
    from open_token.redaction import user_rules

    rules: list[CustomRule] = []
    allowed: list[AllowEntry] = []
    warnings: tuple[str, ...] = ()
    for path, content in files:
        text = (read_optional(path) or b"").decode("utf-8", "replace")
        rules += user_rules.parse_user_rules(user_rules.SettingsFile(str(path), text), content)
        entries = user_rules.parse_allowances(user_rules.SettingsFile(str(path), text), content)
        if entries and path == project.path and not _is_trusted(user, path.parent):
            reason = "your settings do not list its folder in trust_projects"
            warnings = (f"the allow-list of {path} has no effect: {reason}",)
            continue
        allowed += [replace(entry, path=os.path.expanduser(entry.path)) for entry in entries]
    return RedactionOverrides(tuple(rules), tuple(allowed)), warnings


def read_rules_file(path: Path, name: str) -> tuple[CustomRule, ...]:
    """Read and check the rules of a file."""
    raw = read_existing(path)
    if raw is None:
        raise InputError("no such file or rule", where=name, help="see `open-token rules list`")
    return parse_rules(raw, name)


def parse_rules(raw: bytes, name: str) -> tuple[CustomRule, ...]:
    """Parse and check the rules of a TOML text; its allow-list is checked too."""
    from open_token.redaction import user_rules

    content = _parse_toml(raw, name)
    file = user_rules.SettingsFile(name, raw.decode("utf-8", "replace"))
    rules = user_rules.parse_user_rules(file, content)
    user_rules.parse_allowances(file, content)
    if not rules:
        similar = [key for key in content if suggest_match(key, ["rule"])]
        guess = f"did you mean rule instead of {similar[0]}? " if similar else ""
        raise InputError(
            "no rule in this file", where=name, help=f"{guess}start each rule with [[rule]]"
        )
    return rules


def add_allow_entries(folders: Folders, entries: list[tuple[str, str]]) -> Path:
    """Add keyed hashes with a note to the user's allow-list; return its path."""
    path = folders.settings / ALLOW_FILE
    text = (read_optional(path) or _ALLOW_FILE_HEAD).decode()
    for value, note in entries:
        text += f'\n[[allow]]\nvalue = "{value}"\nnote = "{note}"\n'
    if not make_folder(folders.settings):
        raise OutputError(
            "cannot write to the settings folder",
            where=str(path),
            help="choose another folder with OPEN_TOKEN_HOME",
        )
    write_atomic(path, text.encode(), 0o600)
    return path


def _is_trusted(user: _File, folder: Path) -> bool:
    names = user.content.get("trust_projects", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(
            "trust_projects must be a list of folders",
            where=str(user.path),
            help='write trust_projects = ["~/work/acme"]',
        )
    return any(Path(os.path.expanduser(name)) == folder for name in names)


def _read_defaults(file: _File) -> dict[str, Any]:
    return _check_options(_read_table(file, "defaults"), str(file.path))


def _read_table(file: _File, name: str) -> dict[str, Any]:
    table = file.content.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(
            f"{name} must be a table",
            where=str(file.path),
            help=f"write [{name}] and its keys below it",
        )
    return dict(table)


def _check_options(options: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the options if they are valid; an error names their origin."""
    try:
        ExportOptions.of(options)
    except UsageError as problem:
        raise UsageError(problem.what, where=where, help=problem.help) from None
    return options


def _keep_stricter(project: dict[str, Any], user_redact: str) -> dict[str, Any]:
    """Drop options of a project that reveal more than the user's: projects are not trusted."""
    weaker: tuple[str, ...] = ()
    if user_redact in REDACTION_MODES:
        weaker = tuple(REDACTION_MODES[: REDACTION_MODES.index(user_redact)])
    if project.get("redact") in weaker:
        del project["redact"]
    if project.get("internal") == "full":
        del project["internal"]
    if project.get("images") == "keep":
        del project["images"]
    return project


def _read_policy(*files: _File) -> Policy:
    """Combine the policies of several files; each can only make it stricter."""
    tables = [_read_policy_table(file) for file in files]
    levels = [table.get("min_redact", "none") for table in tables]
    for level, file in zip(levels, files, strict=True):
        if level not in REDACTION_MODES:
            raise UsageError(
                "invalid value for policy min_redact",
                where=str(file.path),
                help=f"it accepts {', '.join(REDACTION_MODES)}",
            )
    return Policy(
        forbid_internal_full=any(table.get("forbid_internal_full") is True for table in tables),
        never_export_private_keys=any(
            table.get("never_export_private_keys") is True for table in tables
        ),
        min_redact=max(levels, key=REDACTION_MODES.index),
    )


def _read_policy_table(file: _File) -> dict[str, Any]:
    """Return the policy of a file; a mistyped key is an error, or it would silently do nothing."""
    table = _read_table(file, "policy")
    known = list(Policy.__struct_fields__)
    for name, value in table.items():
        if name not in known:
            guess = suggest_match(name, known)
            raise UsageError(
                f"unknown policy key '{name[:60]}'",
                where=str(file.path),
                help=f"{guess}available keys: {', '.join(known)}",
            )
        if name != "min_redact" and not isinstance(value, bool):
            raise UsageError(
                f"policy {name} must be true or false",
                where=str(file.path),
                help="write it without quotes",
            )
    return table


def _read_team_key(user: _File, folders: Folders) -> bytes | None:
    name = user.content.get("team_key")
    if not isinstance(name, str):
        return None
    path = folders.settings / os.path.expanduser(name)
    key = read_optional(path)
    if not key:
        raise UsageError(
            "cannot read the team key",
            where=str(path),
            help="check team_key in the settings",
        )
    return key
