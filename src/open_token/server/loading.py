"""Reads how a server is set up: flags win over the environment, which wins over [server] in the settings file."""

import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from open_token.errors import UsageError
from open_token.files import Folders, read_optional
from open_token.options import guess_of
from open_token.server.config import PROVIDERS, Limits, ServerConfig

PREFIX = "OPEN_TOKEN_SERVER_"
ROLES = ("all", "gateway", "worker", "scheduler")
LOGS = ("text", "json", "off")
_FIELDS = {item.name: item.type for item in msgspec.structs.fields(ServerConfig) if item.name != "limits"}
_LIMITS = {item.name: item.type for item in msgspec.structs.fields(Limits)}


def load_config(flags: Mapping[str, Any], env: Mapping[str, str]) -> ServerConfig:
    """The configuration; a value that is wrong is an error that names where it stands, never the value."""
    folders = Folders.of(env)
    values: dict[str, Any] = {"data": folders.data / "server"}
    limits: dict[str, Any] = {}
    for source in (_of_file(folders.settings / "config.toml"), _of_environment(env), _of_flags(flags)):
        for name, where, raw in source:
            if name.startswith("limits."):
                limits[name[7:]] = _checked(name, raw, _LIMITS[name[7:]], where)
            else:
                values[name] = _checked(name, raw, _FIELDS[name], where)
    return ServerConfig(**values, limits=Limits(**limits))


def _of_file(path: Path) -> Iterator[tuple[str, str, Any]]:
    raw = read_optional(path)
    if raw is None:
        return
    try:
        table = tomllib.loads(raw.decode("utf-8")).get("server", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise UsageError("this settings file is not TOML", where=str(path), help="mend it or move it away") from None
    if not isinstance(table, dict) or not isinstance(table.get("limits", {}), dict):
        raise UsageError("server is not a table", where=str(path), help="write [server] and its keys below it")
    inner = {f"limits.{name}": value for name, value in table.pop("limits", {}).items()}
    for name, value in {**table, **inner}.items():
        _must_be_known(name, f"[server] in {path}")
        yield name, f"{name} below [server] in {path}", value


def _of_environment(env: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    for word in sorted(env):
        if not word.startswith(PREFIX) or not env[word]:
            continue
        name = word.removeprefix(PREFIX).lower()
        name = f"limits.{name[7:]}" if name.startswith("limits_") else name
        where = f"{word} in the environment"
        _must_be_known(name, where)
        yield name, where, _taken_apart(name, env[word], where)


def _of_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for name, value in flags.items():
        if name in _FIELDS and value is not None and value is not False:
            where = f"--{name.replace('_', '-')}"
            yield name, where, _taken_apart(name, value, where) if isinstance(value, str) else value


def _taken_apart(name: str, text: str, where: str) -> Any:
    """A text as the kind of value that a setting has: lists by commas, tables as JSON."""
    kind = str(_FIELDS.get(name, ""))
    if kind.startswith("tuple"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind.startswith("dict"):
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
        raise UsageError(f"the setting {name} is not JSON", where=where, help="write an object: {...}")
    return text


def _must_be_known(name: str, where: str) -> None:
    known = [*_FIELDS, "limits", *(f"limits.{limit}" for limit in _LIMITS)]
    if name not in known or name == "limits":
        guess = guess_of(name, known)
        raise UsageError(
            "there is no such setting of the server", where=where, help=f"{guess}see `open-token serve --help`"
        )


def _checked(name: str, raw: Any, kind: Any, where: str) -> Any:
    try:
        value = msgspec.convert(raw, kind, strict=not isinstance(raw, str), dec_hook=_path)
    except (msgspec.ValidationError, TypeError):
        raise UsageError(f"the setting {name} has not the form it must have", where=where, help=_form(kind)) from None
    if fault := _fault(name, value):
        raise UsageError(f"the setting {name} {fault}", where=where, help="see `open-token serve --help`")
    return value


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        return Path(value).expanduser()
    raise TypeError


def _fault(name: str, value: Any) -> str | None:
    """What is wrong with a value of the right form."""
    if name == "port" and not 0 <= value <= 65535:
        return "goes from 0 to 65535"
    if name == "role" and value not in ROLES:
        return f"takes {', '.join(ROLES)}"
    if name == "log" and value not in LOGS:
        return f"takes {', '.join(LOGS)}"
    if name == "compact_at" and not 0 < value <= 1:
        return "is a share: more than 0, at most 1"
    if name in ("max_turns", "model_timeout", "tool_timeout") and value <= 0:
        return "must be more than 0"
    if name.startswith("limits.") and value < 1:
        return "must be at least 1"
    if name == "host" and not value.strip():
        return "is empty"
    if name in ("model", "models") and not all(map(_is_model, [value] if isinstance(value, str) else value or ())):
        return f"is demo, or begins with {', '.join(f'{provider}:' for provider in PROVIDERS)}"
    if name == "cors" and not all(origin == "*" or "://" in origin for origin in value):
        return "names origins, as https://chat.example"
    return None


def _is_model(name: str) -> bool:
    provider, _, rest = name.partition(":")
    return name == "demo" or (provider in PROVIDERS and bool(rest))


def _form(kind: Any) -> str:
    kinds = get_args(kind) or (kind,)
    for known, words in ((bool, "true or false"), (int, "a whole number"), (float, "a number"), (Path, "a path")):
        if known in kinds and not str(kind).startswith("tuple"):
            return f"write {words}"
    return "write a list of texts" if str(kind).startswith("tuple") else "write a text"
