"""What is configured and what is missing: whether a server could start, told before it does."""

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
from open_token.storage.files import locked

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
    """One thing that was looked at; what is missing keeps the server from starting."""

    what: str
    level: Level
    words: str


def missing_packages() -> list[str]:
    """The packages of the extra `server` that are not installed."""
    return [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]


def findings(config: ServerConfig, env: Mapping[str, str]) -> Iterator[Finding]:
    """Everything that a start needs, in order; nothing is changed."""
    lacking = missing_packages()
    words = f"not installed: {', '.join(lacking)}" if lacking else "installed"
    yield Finding("packages", "missing" if lacking else "ok", words)
    yield _database(config)
    yield _address(config)
    yield from _model(config, env)
    yield _sandbox(config)
    yield from _extensions(config)
    yield Finding("sharing", "ok", "on" if config.sharing else "off")
    yield Finding("memory", "ok", "on" if config.memory else "off")
    yield Finding("other origins", "ok", ", ".join(config.cors) or "none")


def _database(config: ServerConfig) -> Finding:
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
        return _new_folder(folder)
    with contextlib.suppress(OpenTokenError), locked(folder / LOCK) as is_ours:
        if not is_ours:
            return Finding("data", "missing", f"another server is at work in {folder}")
    if not all(os.access(place, os.W_OK) for place in (folder, folder / DATABASE)):
        return Finding("data", "missing", f"{folder} may not be written")
    if faults := check(folder):
        return Finding("data", "missing", f"{folder}: {faults[0]}")
    return Finding("data", "ok", f"SQLite in {folder}")


def _new_folder(folder: Path) -> Finding:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding("data", "missing", f"{folder} cannot be made or written")
    return Finding(
        "data", "ok", f"SQLite in {folder}, made at the first start, with an owner and one key"
    )


def _address(config: ServerConfig) -> Finding:
    place = f"{config.host}:{config.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as door:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or "no such address"
        return Finding("address", "missing", f"{place}: {reason}")
    is_open = config.host not in ("127.0.0.1", "::1", "localhost")
    words = f"{place}, reached from other machines: put TLS in front of it" if is_open else place
    return Finding("address", "note" if is_open else "ok", words)


def _model(config: ServerConfig, env: Mapping[str, str]) -> Iterator[Finding]:
    held = [name for name, words in PROVIDERS.items() if any(env.get(word) for word in words)]
    if config.base_url:
        held.append("a service of your own")
    alone = "no key is set" if config.model else "no key is set: the demo model answers"
    yield Finding("providers", "ok" if held else "note", ", ".join(held) or alone)
    if config.model:
        provider = config.model.partition(":")[0]
        is_own = provider == "openai" and config.base_url is not None
        if provider in PROVIDERS and provider not in held and not is_own:
            yield Finding(
                "model", "note", f"{config.model} needs {' or '.join(PROVIDERS[provider])}"
            )
        else:
            yield Finding("model", "ok", config.model)


def _sandbox(config: ServerConfig) -> Finding:
    if shutil.which("bwrap"):
        return Finding("sandbox", "ok", "bubblewrap")
    if config.allow_unsandboxed:
        return Finding("sandbox", "note", "none: Bash runs with the rights of the server")
    return Finding(
        "sandbox", "note", "no bubblewrap: Bash is off unless --allow-unsandboxed is given"
    )


def _extensions(config: ServerConfig) -> Iterator[Finding]:
    if config.tools_module:
        try:
            is_there = importlib.util.find_spec(config.tools_module) is not None
        except (ImportError, ValueError):
            is_there = False
        yield Finding(
            "tools",
            "ok" if is_there else "missing",
            config.tools_module + ("" if is_there else " is not there"),
        )
    for folder in config.skills:
        yield Finding(
            "skills",
            "ok" if folder.is_dir() else "missing",
            f"{folder}" + ("" if folder.is_dir() else " is not there"),
        )
    if config.sign_key:
        is_there = config.sign_key.is_file() and shutil.which("ssh-keygen") is not None
        words = f"{config.sign_key}" + (
            "" if is_there else " is not there, or ssh-keygen is not installed"
        )
        yield Finding("signing", "ok" if is_there else "missing", words)
    if config.mcp:
        yield Finding("MCP servers", "ok", ", ".join(sorted(config.mcp)))
