"""Where OpenCode keeps sessions, in whichever form: a store gives sessions, and messages with their
parts in order."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from open_token.agents.opencode.shapes import (
    is_bundle,
    is_event,
    is_export,
    is_message,
    is_part,
    is_path_safe,
    is_session,
    is_sortable,
)
from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject, get_text
from open_token.formats.shared.notes import format_kind
from open_token.sources.source import Source

Skip = Callable[[str, str, str], None]
Message = tuple[JsonObject, list[Any]]


class Store(Protocol):
    """What a form of storage gives."""

    sessions: dict[str, JsonObject]
    """By id, in the order of the source; of some nothing is known but the id."""
    home: dict[str, str]
    """The session of each message that was met."""

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages of a session, each with its parts."""
        ...


class Folder:
    """A storage folder: one file for each session, message and part. The name of a file is its id,
    and ids sort."""

    def __init__(
        self,
        find: Callable[[str], list[Source]],
        sessions: dict[str, JsonObject],
        skip: Skip,
        files: dict[str, Source] | None = None,
    ) -> None:
        self._find = find
        self._skip = skip
        self._files = files or {}
        """Where sessions were glanced at; who asks for the messages of one has read its file
        too."""
        self.sessions = sessions
        self.home: dict[str, str] = {}

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages in the order of their names."""
        if session_id in self._files:
            self._files[session_id].is_read = True
        for number, file in enumerate(self._within("message", session_id), 1):
            info = self._value(file, f"message {number}")
            if type(info) is not dict:
                continue
            name = get_text(info, "id")
            self.home[name or ""] = session_id
            files = self._within("part", name)
            parts = [
                part
                for part in (self._value(part, f"message {number}") for part in files)
                if part is not None
            ]
            inside = info.get("parts")
            yield info, parts or (inside if type(inside) is list else [])

    def _within(self, kind: str, name: str | None) -> list[Source]:
        return self._find(f"{kind}/{name}/*.json") if is_path_safe(name) else []

    def _value(self, file: Source, place: str) -> Any:
        """What a file holds; a file that broke off is left out and noted."""
        value = None
        with contextlib.suppress(InputError):
            value = next((value for _, value in file.records()), None)
        if value is None:
            self._skip("broken-file", place, "a file of a message or a part that is not JSON")
        for _ in file.repaired:
            self._skip(
                "lone-surrogate", place, "text that is not valid Unicode was replaced by U+FFFD"
            )
        return value


class Values:
    """Sessions, messages and parts one after another in one file: an export, or what was poured
    together."""

    def __init__(self, source: Source, skip: Skip) -> None:
        self.sessions: dict[str, JsonObject] = {}
        self.home: dict[str, str] = {}
        self._skip = skip
        self._infos: dict[str, JsonObject] = {}
        self._parts: dict[str, dict[str, Any]] = {}
        self._given: set[str] = set()
        """Sessions that came with their messages in order."""
        self._answers: set[str] = set()
        """Messages of a run, which tells only what the model says and does, and of them the parts
        alone."""
        for number, value in source.records():
            self._take(number, value)
        self._messages: dict[str, list[str]] = {name: [] for name in self.sessions}
        for name, session_id in self.home.items():
            self.sessions.setdefault(session_id, {})
            self._messages.setdefault(session_id, []).append(name)

    def _take(self, number: int, value: Any) -> None:
        if is_part(value):
            self._part(value["messageID"], value["sessionID"], value)
        elif is_message(value):
            self._message(value, number)
        elif is_event(value):
            self._answers.add(value["part"]["messageID"])
            self._part(value["part"]["messageID"], value["sessionID"], value["part"])
        elif is_bundle(value):
            self._bundle(value, value["info"]["sessionID"], number)
        elif is_export(value):
            self._export(value, number)
        elif is_session(value):
            self.sessions[value["id"]] = {**self.sessions.get(value["id"], {}), **value}
        else:
            self._skip(*_unclaimed(value, f"value {number}"))

    def _export(self, value: JsonObject, number: int) -> None:
        session_id = get_text(value["info"], "id") or f"{number}"
        self.sessions[session_id] = value["info"]
        self._given.add(session_id)
        for message in value["messages"]:
            if type(message) is dict and type(message.get("info")) is dict:
                self._bundle(message, session_id, number)
            else:
                self._skip("skipped-record", f"value {number}", "a message that is no object")

    def _bundle(self, value: JsonObject, session_id: str, number: int) -> None:
        info = value["info"]
        name = get_text(info, "id") or f"{session_id} {len(self._infos)}"
        self._message({**info, "id": name, "sessionID": session_id}, number)
        parts = value.get("parts")
        for part in parts if type(parts) is list else []:
            self._part(name, session_id, part)

    def _message(self, info: JsonObject, number: int) -> None:
        name = info["id"]
        if name in self._infos:
            self._skip(
                "duplicate-record",
                f"value {number}",
                "a message that is there twice; the last is told",
            )
        self._infos[name] = info
        self.home.setdefault(name, info["sessionID"])

    def _part(self, message_id: str, session_id: str, part: Any) -> None:
        """A part; one that comes again is a later state of the same."""
        parts = self._parts.setdefault(message_id, {})
        parts[get_text(part, "id") or f" {len(parts)}"] = part
        self.home.setdefault(message_id, session_id)

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages as they were given, else in the order of their ids."""
        given = session_id in self._given
        for name in _ordered(self._messages.get(session_id, []), given):
            parts = self._parts.get(name, {})
            if name not in self._infos:
                place = f"message {name}" if format_kind(name) == name else "a message"
                self._skip("no-message", place, "parts whose message is not in the source")
            alone = {"id": name, "role": "assistant"} if name in self._answers else {"id": name}
            yield (
                self._infos.get(name, alone),
                [parts[part] for part in _ordered(list(parts), given)],
            )


def _ordered(names: list[str], given: bool) -> list[str]:
    return sorted(names) if not given and all(is_sortable(name) for name in names) else names


def _unclaimed(value: Any, place: str) -> tuple[str, str, str]:
    """The note on a value that is no part of a conversation."""
    if type(value) is dict and "worktree" in value:
        return "bookkeeping", place, "what is known of a project"
    if type(value) is dict and "secret" in value:
        return "share-secret", place, "the secret of a shared session"
    if type(value) is list:
        return "bookkeeping", place, "a list: changes to files, or things to do"
    return "unknown-record", place, "a value that is no session, message or part"
