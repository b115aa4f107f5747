"""Stores of OpenCode sessions: the storage folder, and files with one or many records."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from open_token.agents.opencode.detect import (
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

OmissionNoter = Callable[[str, str, str], None]
Message = tuple[JsonObject, list[Any]]


class Store(Protocol):
    """A form of storage, with sessions and their messages."""

    sessions: dict[str, JsonObject]
    """The headers of sessions by id, in the order of the source; some are empty."""
    session_of_message: dict[str, str]
    """The session of each message that was read."""

    def read_messages(self, session_id: str) -> Iterator[Message]:
        """Yield the messages of a session, each with its parts."""
        ...


class FolderStore:
    """A storage folder: one file for each session, message and part.

    The files have their ids as names, and ids sort chronologically.
    """

    def __init__(
        self,
        find_files: Callable[[str], list[Source]],
        sessions: dict[str, JsonObject],
        note_omission: OmissionNoter,
        session_files: dict[str, Source],
    ) -> None:
        self._find_files = find_files
        self._note_omission = note_omission
        self._session_files = session_files
        self.sessions = sessions
        self.session_of_message: dict[str, str] = {}

    def read_messages(self, session_id: str) -> Iterator[Message]:
        """Yield the messages in the order of their file names."""
        if session_id in self._session_files:
            # The header was decoded without marking the file as read.
            self._session_files[session_id].is_read = True
        for number, file in enumerate(self._list_files("message", session_id), 1):
            info = self._read_value(file, f"message {number}")
            if type(info) is not dict:
                continue
            message_id = get_text(info, "id")
            self.session_of_message[message_id or ""] = session_id
            parts = []
            for part_file in self._list_files("part", message_id):
                part = self._read_value(part_file, f"message {number}")
                if part is not None:
                    parts.append(part)
            # Older versions stored the parts inside the message.
            if not parts and type(info.get("parts")) is list:
                parts = info["parts"]
            yield info, parts

    def _list_files(self, kind: str, name: str | None) -> list[Source]:
        if not is_path_safe(name):
            return []
        return self._find_files(f"{kind}/{name}/*.json")

    def _read_value(self, file: Source, position: str) -> Any:
        """Return the value in a file; note a damaged file and return None."""
        value = None
        with contextlib.suppress(InputError):
            value = next((value for _, value in file.records()), None)
        if value is None:
            self._note_omission("broken-file", position, "file of a message or a part: not JSON")
        for _ in file.repaired:
            self._note_omission(
                "lone-surrogate", position, "text that is not valid Unicode was replaced by U+FFFD"
            )
        return value


class RecordStore:
    """Sessions, messages and parts in one file: an export, an event stream, concatenated files."""

    def __init__(self, source: Source, note_omission: OmissionNoter) -> None:
        self.sessions: dict[str, JsonObject] = {}
        self.session_of_message: dict[str, str] = {}
        self._note_omission = note_omission
        self._messages: dict[str, JsonObject] = {}
        self._parts: dict[str, dict[str, Any]] = {}
        self._ordered_sessions: set[str] = set()
        """Sessions of exports, whose messages and parts are in order."""
        self._streamed_messages: set[str] = set()
        """Messages of `opencode run`, which prints only the parts of the model's messages."""
        for number, value in source.records():
            self._add_value(number, value)
        self._session_messages: dict[str, list[str]] = {name: [] for name in self.sessions}
        for message_id, session_id in self.session_of_message.items():
            self.sessions.setdefault(session_id, {})
            self._session_messages.setdefault(session_id, []).append(message_id)

    def _add_value(self, number: int, value: Any) -> None:
        if is_part(value):
            self._add_part(value["messageID"], value["sessionID"], value)
        elif is_message(value):
            self._add_message(value, number)
        elif is_event(value):
            part = value["part"]
            self._streamed_messages.add(part["messageID"])
            self._add_part(part["messageID"], value["sessionID"], part)
        elif is_bundle(value):
            self._add_bundle(value, value["info"]["sessionID"], number)
        elif is_export(value):
            self._add_export(value, number)
        elif is_session(value):
            self.sessions[value["id"]] = {**self.sessions.get(value["id"], {}), **value}
        else:
            code, detail = _describe_other_value(value)
            self._note_omission(code, f"value {number}", detail)

    def _add_export(self, value: JsonObject, number: int) -> None:
        session_id = get_text(value["info"], "id") or f"{number}"
        self.sessions[session_id] = value["info"]
        self._ordered_sessions.add(session_id)
        for message in value["messages"]:
            if type(message) is dict and type(message.get("info")) is dict:
                self._add_bundle(message, session_id, number)
            else:
                self._note_omission(
                    "skipped-record", f"value {number}", "message that is not an object"
                )

    def _add_bundle(self, value: JsonObject, session_id: str, number: int) -> None:
        info = value["info"]
        message_id = get_text(info, "id") or f"{session_id} {len(self._messages)}"
        self._add_message({**info, "id": message_id, "sessionID": session_id}, number)
        parts = value.get("parts")
        if type(parts) is list:
            for part in parts:
                self._add_part(message_id, session_id, part)

    def _add_message(self, info: JsonObject, number: int) -> None:
        message_id = info["id"]
        if message_id in self._messages:
            self._note_omission(
                "duplicate-record",
                f"value {number}",
                "earlier copy of a message; the last one is exported",
            )
        self._messages[message_id] = info
        self.session_of_message.setdefault(message_id, info["sessionID"])

    def _add_part(self, message_id: str, session_id: str, part: Any) -> None:
        # A part that is repeated is a later state of the same part.
        parts = self._parts.setdefault(message_id, {})
        parts[get_text(part, "id") or f" {len(parts)}"] = part
        self.session_of_message.setdefault(message_id, session_id)

    def read_messages(self, session_id: str) -> Iterator[Message]:
        """Yield the messages of an export in its order, others in the order of their ids."""
        is_ordered = session_id in self._ordered_sessions
        for message_id in _sort_ids(self._session_messages.get(session_id, []), is_ordered):
            message = self._messages.get(message_id)
            if message is None:
                position = (
                    f"message {message_id}"
                    if format_kind(message_id) == message_id
                    else "a message"
                )
                self._note_omission(
                    "no-message", position, "parts whose message is not in the source"
                )
                message = {"id": message_id}
                if message_id in self._streamed_messages:
                    message["role"] = "assistant"
            parts = self._parts.get(message_id, {})
            yield message, [parts[part_id] for part_id in _sort_ids(list(parts), is_ordered)]


def _sort_ids(ids: list[str], is_ordered: bool) -> list[str]:
    if is_ordered or not all(is_sortable(name) for name in ids):
        return ids
    return sorted(ids)


def _describe_other_value(value: Any) -> tuple[str, str]:
    """Return the code and detail of the note on a value that is not part of a conversation."""
    if type(value) is dict and "worktree" in value:
        return "bookkeeping", "description of a project"
    if type(value) is dict and "secret" in value:
        return "share-secret", "the secret of a shared session"
    if type(value) is list:
        return "bookkeeping", "list of file changes or of tasks"
    return "unknown-record", "value that is not a session, message or part"
