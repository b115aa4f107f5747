"""OpenCode and its fork Kilo Code (since 7): storage folder, database, export, storage files poured
together."""

from typing import Any

from open_token.agents.opencode.shapes import is_export, is_ours, is_session
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether it holds sessions, messages or parts of OpenCode."""
    if source.shape == "sqlite":
        return _is_database(source.tables)
    if source.shape == "folder":
        files = source.find_files("session/*/*.json") or source.find_files(
            "storage/session/*/*.json"
        )
        return any(is_session(value) for file in files[:3] for value in file.sample[:1])
    sample = source.sample
    if len(sample) == 1 and isinstance(sample[0], list):
        sample = sample[0][:64]
    return any(is_ours(value) for value in sample)


def _is_database(tables: dict[str, list[str]]) -> bool:
    """Whether the tables are OpenCode's; version 2 keeps messages in a table of their own."""
    if not {"id", "directory", "time_created"} <= set(tables.get("session", ())):
        return False
    old = {"id", "session_id", "time_created", "data"} <= set(
        tables.get("message", ())
    ) and "part" in tables
    return old or {"id", "session_id", "type", "data"} <= set(tables.get("session_message", ()))


def peek(records: list[Any]) -> dict[str, str]:
    """What the first record tells of a session: its id, its folder, its title."""
    first: Any = records[0] if records else None
    info = first["info"] if is_export(first) else first
    if not is_session(info):
        return {}
    found = {"id": info["id"], "cwd": info.get("directory"), "title": info["title"]}
    if isinstance(info.get("parentID"), str):
        found["is_part"] = "of the session that started it"
    return {name: value for name, value in found.items() if isinstance(value, str)}
