"""Reads how a server is set up: flags win over the environment, which wins over [server] in the
settings file."""

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
"""The kind of every setting, by its name in the file."""
_SCHEMES = {
    "database": ("postgresql", "postgres"),
    "redis": ("redis", "rediss", "unix"),
    "base_url": ("http", "https"),
    "public_url": ("http", "https"),
}
_SEE = "see docs/reference/settings.md"
_Given = Iterator[tuple[str, str, Any]]


def load_config(flags: Mapping[str, Any], env: Mapping[str, str]) -> ServerConfig:
    """The configuration; a value that is wrong is an error that names where it stands, never the
    value."""
    folders = Folders.of(env)
    values: dict[str, Any] = {"data": folders.data / "server"}
    for source in (
        _of_file(folders.settings / "config.toml"),
        _of_environment(env),
        _of_flags(flags),
    ):
        for name, where, raw in source:
            values[name] = _checked(name, raw, where)
    limits = {name[7:]: values.pop(name) for name in tuple(values) if name.startswith("limits.")}
    return ServerConfig(**values, limits=Limits(**limits))


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace(".", "-").replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.replace(".", "_").upper()


def is_switch(name: str) -> bool:
    """Whether a setting is on or off."""
    return SETTINGS[name] is bool


def _of_file(path: Path) -> _Given:
    raw = read_optional(path)
    if raw is None:
        return
    try:
        text = raw.decode("utf-8")
        whole = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        found = re.search(r"at line (\d+)", str(problem))
        where = f"{path}:{found[1]}" if found else str(path)
        raise UsageError(
            "this settings file is not TOML", where=where, help="mend it or move it away"
        ) from None
    for name in whole.keys() - {"server"}:
        if guess := suggest_match(name, ["server"]):
            raise UsageError(
                f"there is no table {name[:60]}", where=_place(path, text, name), help=guess
            )
    table = whole.get("server", {})
    if not isinstance(table, dict) or not isinstance(table.get("limits", {}), dict):
        raise UsageError(
            "server is not a table", where=str(path), help="write [server] and its keys below it"
        )
    inner = {f"limits.{name}": value for name, value in table.pop("limits", {}).items()}
    for name, value in {**table, **inner}.items():
        where = f"{name[:60]} below [server] in {_place(path, text, f'server.{name}')}"
        _must_be_known(name, where)
        yield name, where, value


def _place(path: Path, text: str, wanted: str) -> str:
    """A file with the line on which a key or its table begins, as far as it is written plainly."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            table = found[1] + "."
            names = table
        elif found := re.match(r"\s*([\w.-]+)\s*=", line):
            names = f"{table}{found[1]}."
        else:
            continue
        if names.startswith(f"{wanted}."):
            return f"{path}:{number}"
    return str(path)


def _of_environment(env: Mapping[str, str]) -> _Given:
    known = {variable_of(name): name for name in SETTINGS}
    for word in sorted(env):
        if not word.startswith(PREFIX) or not env[word]:
            continue
        where = f"{word[:100]} in the environment"
        if word not in known:
            raise UsageError(
                "there is no such setting of the server",
                where=where,
                help=suggest_match(word, known) + _SEE,
            )
        yield known[word], where, _taken_apart(known[word], env[word], where)


def _of_flags(flags: Mapping[str, Any]) -> _Given:
    for name in SETTINGS:
        value = flags.get(name.replace(".", "_"))
        if value is not None:
            where = flag_of(name)
            yield name, where, _taken_apart(name, value, where) if isinstance(value, str) else value


def _taken_apart(name: str, text: str, where: str) -> Any:
    """A text as the kind of value that a setting has: lists by commas, tables as JSON."""
    kind = str(SETTINGS[name])
    if kind.startswith("tuple"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind.startswith("dict"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(text)
        raise UsageError(
            f"the setting {name} is not JSON", where=where, help="write an object: {...}"
        )
    return text


def _must_be_known(name: str, where: str) -> None:
    if name not in SETTINGS:
        raise UsageError(
            "there is no such setting of the server",
            where=where,
            help=suggest_match(name, SETTINGS) + _SEE,
        )


def _checked(name: str, raw: Any, where: str) -> Any:
    kind = SETTINGS[name]
    try:
        value = msgspec.convert(raw, kind, strict=not isinstance(raw, str), dec_hook=_path)
    except (msgspec.ValidationError, TypeError):
        raise UsageError(
            f"the setting {name} has not the form it must have", where=where, help=_form(kind)
        ) from None
    if fault := _fault(name, value):
        raise UsageError(f"the setting {name} {fault}", where=where, help=_SEE)
    return value


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        return Path(value).expanduser()
    raise TypeError


def _fault(name: str, value: Any) -> str | None:
    """What is wrong with a value of the right form."""
    if isinstance(value, int | float):
        return _wrong_number(name, value)
    if name in ("role", "log") and value not in (choices := ROLES if name == "role" else LOGS):
        return f"takes {', '.join(choices)}"
    if name == "host" and not value.strip():
        return "is empty"
    if name in ("model", "models") and not all(
        map(_is_model, [value] if isinstance(value, str) else value or ())
    ):
        return f"is demo, or begins with {', '.join(f'{provider}:' for provider in PROVIDERS)}"
    if name == "cors" and not all(origin == "*" or "://" in origin for origin in value):
        return "names origins, as https://chat.example"
    if name == "proxies" and not all(map(_is_network, value)):
        return "names addresses or networks, as 10.0.0.5 or 10.0.0.0/8"
    if name in _SCHEMES and value.partition("://")[0] not in _SCHEMES[name]:
        return f"is an address that begins with {_SCHEMES[name][0]}://"
    return None


def _is_model(name: str) -> bool:
    provider, _, rest = name.partition(":")
    return name == "demo" or (provider in PROVIDERS and bool(rest))


def _wrong_number(name: str, value: float) -> str | None:
    if not math.isfinite(value):
        return "is a number that ends"
    if name == "port" and not 0 <= value <= 65535:
        return "goes from 0 to 65535"
    if name == "compact_at" and not 0 < value <= 1:
        return "is a share: more than 0, at most 1"
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


def _form(kind: Any) -> str:
    if str(kind).startswith("tuple"):
        return "write a list of texts"
    if str(kind).startswith("dict"):
        return "write a table"
    kinds = get_args(kind) or (kind,)
    for known, words in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (Path, "a path"),
    ):
        if known in kinds:
            return f"write {words}"
    return "write a text"
