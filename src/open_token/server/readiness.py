"""Readiness checks: what is configured, and what would prevent a server from starting."""

import contextlib
import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from open_token.errors import OpenTokenError
from open_token.server.config import ServerConfig
from open_token.server.store.backup import check
from open_token.server.store.sqlite.database import DATABASE, LOCK
from open_token.storage.files import try_lock

PACKAGES = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "socketio": "python-socketio",
    "multipart": "python-multipart",
}
PROVIDERS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
Level = Literal["ok", "note", "missing"]


class Finding(Struct, frozen=True):
    """The result of a check; the level `missing` prevents the server from starting."""

    what: str
    level: Level
    text: str


def find_missing_packages() -> list[str]:
    """Return the packages of the extra `server` that are not installed."""
    return [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]


def check_readiness(config: ServerConfig, env: Mapping[str, str]) -> Iterator[Finding]:
    """Check everything that a start needs, in order; nothing is changed."""
    missing = find_missing_packages()
    if missing:
        yield Finding("packages", "missing", f"not installed: {', '.join(missing)}")
    else:
        yield Finding("packages", "ok", "installed")
    yield _check_database(config)
    yield _check_address(config)
    yield from _check_models(config, env)
    yield _check_sandbox(config)
    yield from _check_extensions(config)
    yield Finding("sharing", "ok", "on" if config.sharing else "off")
    yield Finding("memory", "ok", "on" if config.memory else "off")
    yield Finding("other origins", "ok", ", ".join(config.cors) or "none")


def _check_database(config: ServerConfig) -> Finding:
    if config.database is not None:
        if importlib.util.find_spec("asyncpg") is None:
            return Finding(
                "database",
                "missing",
                "PostgreSQL needs the extra `postgres`, which is not installed",
            )
        return Finding("database", "ok", "PostgreSQL")
    folder = config.data
    if not (folder / DATABASE).is_file():
        return _check_new_folder(folder)
    with contextlib.suppress(OpenTokenError), try_lock(folder / LOCK) as is_ours:
        if not is_ours:
            return Finding("data", "missing", f"another server is using {folder}")
    if not all(os.access(place, os.W_OK) for place in (folder, folder / DATABASE)):
        return Finding("data", "missing", f"{folder} is not writable")
    if faults := check(folder):
        return Finding("data", "missing", f"{folder}: {faults[0]}")
    return Finding("data", "ok", f"SQLite in {folder}")


def _check_new_folder(folder: Path) -> Finding:
    parent = folder
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return Finding("data", "missing", f"{folder} cannot be created or written")
    return Finding(
        "data", "ok", f"SQLite in {folder}, created at the first start with an owner and one key"
    )


def _check_address(config: ServerConfig) -> Finding:
    endpoint = f"{config.host}:{config.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or "no such address"
        return Finding("address", "missing", f"{endpoint}: {reason}")
    if config.host in ("127.0.0.1", "::1", "localhost"):
        return Finding("address", "ok", endpoint)
    return Finding("address", "note", f"{endpoint}, reachable from other machines: use TLS")


def _check_models(config: ServerConfig, env: Mapping[str, str]) -> Iterator[Finding]:
    available = []
    for name, variables in PROVIDERS.items():
        if any(env.get(variable) for variable in variables):
            available.append(name)
    if config.base_url:
        available.append("custom service")
    if available:
        yield Finding("providers", "ok", ", ".join(available))
    elif config.model:
        yield Finding("providers", "note", "no key is set")
    else:
        yield Finding("providers", "note", "no key is set: using the demo model")
    if config.model:
        provider = config.model.partition(":")[0]
        is_custom = provider == "openai" and config.base_url is not None
        if provider in PROVIDERS and provider not in available and not is_custom:
            yield Finding(
                "model", "note", f"{config.model} needs {' or '.join(PROVIDERS[provider])}"
            )
        else:
            yield Finding("model", "ok", config.model)


def _check_sandbox(config: ServerConfig) -> Finding:
    if shutil.which("bwrap"):
        return Finding("sandbox", "ok", "bubblewrap")
    if config.allow_unsandboxed:
        return Finding("sandbox", "note", "none: Bash runs with the permissions of the server")
    return Finding("sandbox", "note", "no bubblewrap: Bash is disabled without --allow-unsandboxed")


def _check_extensions(config: ServerConfig) -> Iterator[Finding]:
    if config.tools_module:
        try:
            is_found = importlib.util.find_spec(config.tools_module) is not None
        except (ImportError, ValueError):
            is_found = False
        yield _check_exists("tools", config.tools_module, is_found)
    for folder in config.skills:
        yield _check_exists("skills", str(folder), folder.is_dir())
    if config.sign_key:
        if config.sign_key.is_file() and shutil.which("ssh-keygen") is not None:
            yield Finding("signing", "ok", str(config.sign_key))
        else:
            problem = "not found, or ssh-keygen is not installed"
            yield Finding("signing", "missing", f"{config.sign_key}: {problem}")
    if config.mcp:
        yield Finding("MCP servers", "ok", ", ".join(sorted(config.mcp)))


def _check_exists(what: str, name: str, is_found: bool) -> Finding:
    if is_found:
        return Finding(what, "ok", name)
    return Finding(what, "missing", f"{name} not found")
