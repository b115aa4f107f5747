"""OpenCode and its fork Kilo Code (since 7): storage folder, database, export, storage files poured
together."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._opencode_shapes import is_export, is_ours, is_session
from open_token.source import Source

TITLE = "OpenCode, Kilo Code"
# OpenCode keeps to the XDG layout on macOS and Windows, too; some builds for Windows use the local
# application data.
PLACES = (
    ".local/share/opencode/opencode*.db",
    ".local/share/opencode/storage/session/*/ses_*.json",
    "AppData/Local/opencode/opencode*.db",
    "AppData/Local/opencode/storage/session/*/ses_*.json",
    ".local/share/kilo/kilo*.db",
    "AppData/Local/kilo/kilo*.db",
)
SEEN = (
    "storage files of 1.1 to 1.3, also poured together; databases of OpenCode 1.18.33 and Kilo Code 7.7.9;"
    " the database of version 2 and exports as described"
)
CARRIES = "prompts, answers, reasoning, calls and results, files, subagents, tokens, costs, errors, what was taken back"
LEAVES = "whole files before and after a change, side data of results, snapshots, permissions, the secret of a share"


def sniff(source: Source) -> bool:
    """Whether it holds sessions, messages or parts of OpenCode."""
    if source.shape == "sqlite":
        return _is_database(source.tables)
    if source.shape == "folder":
        files = source.below("session/*/*.json") or source.below("storage/session/*/*.json")
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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._opencode").read(source, draft)


def conversations(source: Source) -> list[Found]:
    """The sessions in it that a person started."""
    found: list[Found] = import_module("open_token.readers._opencode").conversations(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the source belongs to."""
    name: str | None = import_module("open_token.readers._opencode").belongs(source, at, value)
    return name
