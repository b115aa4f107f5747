"""Loads the configuration: flags override the environment, which overrides the settings file."""

import contextlib
import ipaddress
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from open_token.errors import UsageError
from open_token.options import suggest_match
from open_token.server.config import PROVIDERS, Limits, ServerConfig
from open_token.storage.files import Folders, read_optional

PREFIX = "OPEN_TOKEN_SERVER_"
ROLES = ("all", "gateway", "worker", "scheduler")
LOGS = ("text", "json", "off")
SETTINGS: dict[str, Any] = {
    **{
        item.name: item.type
        for item in msgspec.structs.fields(ServerConfig)
        if item.name != "limits"
    },
    **{f"limits.{item.name}": item.type for item in msgspec.structs.fields(Limits)},
}
"""The type of every setting by its name in the file."""
_SCHEMES = {
    "database": ("postgresql", "postgres"),
    "redis": ("redis", "rediss", "unix"),
    "base_url": ("http", "https"),
    "public_url": ("http", "https"),
}
_SEE = "see docs/reference/settings.md"
_Given = Iterator[tuple[str, str, Any]]


def load_config(flags: Mapping[str, Any], env: Mapping[str, str]) -> ServerConfig:
    """Load and validate the configuration; errors name the location of a value, never the value."""
    folders = Folders.of(env)
    values: dict[str, Any] = {"data": folders.data / "server"}
    sources = (
        _read_file(folders.settings / "config.toml"),
        _read_environment(env),
        _read_flags(flags),
    )
    for source in sources:
        for name, where, raw in source:
            values[name] = _validate(name, raw, where)
    limits = {}
    for name in tuple(values):
        if name.startswith("limits."):
            limits[name.removeprefix("limits.")] = values.pop(name)
    return ServerConfig(**values, limits=Limits(**limits))


def flag_name(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace(".", "-").replace("_", "-")


def variable_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.replace(".", "_").upper()


def is_switch(name: str) -> bool:
    """Return whether a setting is boolean."""
    return SETTINGS[name] is bool


def _read_file(path: Path) -> _Given:
    raw = read_optional(path)
    if raw is None:
        return
    try:
        text = raw.decode("utf-8")
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        match = re.search(r"at line (\d+)", str(problem))
        where = f"{path}:{match[1]}" if match else str(path)
        raise UsageError(
            "settings file is not valid TOML", where=where, help="fix it or move it away"
        ) from None
    for name in document.keys() - {"server"}:
        if guess := suggest_match(name, ["server"]):
            raise UsageError(
                f"unknown table {name[:60]}", where=_locate(path, text, name), help=guess
            )
    table = document.get("server", {})
    if not isinstance(table, dict) or not isinstance(table.get("limits", {}), dict):
        raise UsageError(
            "server is not a table", where=str(path), help="write [server] and its keys below it"
        )
    limits = {f"limits.{name}": value for name, value in table.pop("limits", {}).items()}
    for name, value in {**table, **limits}.items():
        where = f"{name[:60]} below [server] in {_locate(path, text, f'server.{name}')}"
        _require_known(name, where)
        yield name, where, value


def _locate(path: Path, text: str, key: str) -> str:
    """Return a file with the line of a key or its table, if it can be found textually."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line)
        assignment = re.match(r"\s*([\w.-]+)\s*=", line)
        if header:
            table = header[1] + "."
            name = table
        elif assignment:
            name = f"{table}{assignment[1]}."
        else:
            continue
        if name.startswith(f"{key}."):
            return f"{path}:{number}"
    return str(path)


def _read_environment(env: Mapping[str, str]) -> _Given:
    known = {variable_name(name): name for name in SETTINGS}
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or not env[variable]:
            continue
        where = f"{variable[:100]} in the environment"
        if variable not in known:
            raise UsageError(
                "unknown server setting",
                where=where,
                help=suggest_match(variable, known) + _SEE,
            )
        name = known[variable]
        yield name, where, _parse_text(name, env[variable], where)


def _read_flags(flags: Mapping[str, Any]) -> _Given:
    for name in SETTINGS:
        value = flags.get(name.replace(".", "_"))
        if value is None:
            continue
        where = flag_name(name)
        if isinstance(value, str):
            value = _parse_text(name, value, where)
        yield name, where, value


def _parse_text(name: str, text: str, where: str) -> Any:
    """Parse a text as the type of a setting: lists separated by commas, tables as JSON."""
    kind = str(SETTINGS[name])
    if kind.startswith("tuple"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind.startswith("dict"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(text)
        raise UsageError(
            f"setting {name} is not valid JSON", where=where, help="use an object: {...}"
        )
    return text


def _require_known(name: str, where: str) -> None:
    if name not in SETTINGS:
        raise UsageError(
            "unknown server setting",
            where=where,
            help=suggest_match(name, SETTINGS) + _SEE,
        )


def _validate(name: str, raw: Any, where: str) -> Any:
    kind = SETTINGS[name]
    try:
        value = msgspec.convert(raw, kind, strict=not isinstance(raw, str), dec_hook=_decode_path)
    except (msgspec.ValidationError, TypeError):
        raise UsageError(
            f"setting {name} has the wrong type", where=where, help=_expected_form(kind)
        ) from None
    fault = _find_fault(name, value)
    if fault:
        raise UsageError(f"setting {name} {fault}", where=where, help=_SEE)
    return value


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        return Path(value).expanduser()
    raise TypeError


def _find_fault(name: str, value: Any) -> str | None:
    """Return what is wrong with a value of the right type."""
    if isinstance(value, int | float):
        return _find_number_fault(name, value)
    if name == "role" and value not in ROLES:
        return f"must be one of {', '.join(ROLES)}"
    if name == "log" and value not in LOGS:
        return f"must be one of {', '.join(LOGS)}"
    if name == "host" and not value.strip():
        return "is empty"
    if name in ("model", "models"):
        models = [value] if isinstance(value, str) else value or ()
        if not all(_is_model(model) for model in models):
            prefixes = ", ".join(f"{provider}:" for provider in PROVIDERS)
            return f"must be demo, or begin with {prefixes}"
    if name == "cors" and not all(origin == "*" or "://" in origin for origin in value):
        return "must list origins such as https://chat.example"
    if name == "proxies" and not all(_is_network(network) for network in value):
        return "must list addresses or networks such as 10.0.0.5 or 10.0.0.0/8"
    if name in _SCHEMES and value.partition("://")[0] not in _SCHEMES[name]:
        return f"must be a URL that begins with {_SCHEMES[name][0]}://"
    return None


def _is_model(name: str) -> bool:
    provider, _, rest = name.partition(":")
    return name == "demo" or (provider in PROVIDERS and bool(rest))


def _find_number_fault(name: str, value: float) -> str | None:
    if not math.isfinite(value):
        return "must be finite"
    if name == "port" and not 0 <= value <= 65535:
        return "must be between 0 and 65535"
    if name == "compact_at" and not 0 < value <= 1:
        return "must be more than 0 and at most 1"
    if name in ("max_turns", "model_timeout", "tool_timeout") and value <= 0:
        return "must be more than 0"
    if name == "schedule_grace" and value < 0:
        return "must be at least 0"
    if name.startswith("limits.") and value < 1:
        return "must be at least 1"
    return None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _expected_form(kind: Any) -> str:
    if str(kind).startswith("tuple"):
        return "use a list of strings"
    if str(kind).startswith("dict"):
        return "use a table"
    kinds = get_args(kind) or (kind,)
    forms = (
        (bool, "true or false"),
        (int, "an integer"),
        (float, "a number"),
        (Path, "a path"),
    )
    for known, form in forms:
        if known in kinds:
            return f"use {form}"
    return "use a string"
