"""Read sessions, messages and parts from OpenCode's SQLite database, of version 1 or 2."""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.agents.opencode.storage import Message, OmissionNoter
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text
from open_token.formats.shared.notes import format_kind
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_SESSION_COLUMNS = (
    "id",
    "project_id",
    "parent_id",
    "directory",
    "title",
    "version",
    "share_url",
    "summary_additions",
    "summary_deletions",
    "summary_files",
    "summary_diffs",
    "revert",
    "permission",
    "time_created",
    "time_updated",
)
_FIELD_OF_COLUMN = {"project_id": "projectID", "parent_id": "parentID"}
_SESSION_TABLES = (
    "session",
    "message",
    "part",
    "session_message",
    "session_input",
    "todo",
    "event",
    "session_share",
)
_MESSAGE_FIELDS = ("id", "time", "agent", "finish", "cost", "tokens", "error")

_PARTS_SQL = """
    SELECT p.message_id, p.id, p.data FROM part p JOIN message m ON m.id = p.message_id
    WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id
"""
_MESSAGES_SQL = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_ORPHANS_SQL = """
    SELECT count(*) FROM part
    WHERE session_id = ? AND message_id NOT IN (SELECT id FROM message)
"""
_NEWEST_V1_SQL = "SELECT max(time_created), count(*) FROM message WHERE session_id = ?"
_NEWEST_V2_SQL = """
    SELECT max(time_created), count(*) FROM session_message
    WHERE session_id = ? AND type = 'user'
"""


class DatabaseStore:
    """A store of the rows of a database."""

    def __init__(self, source: Source, note_omission: OmissionNoter) -> None:
        self._source = source
        self._note_omission = note_omission
        self.session_of_message: dict[str, str] = {}
        self.sessions: dict[str, JsonObject] = {}
        table = source.tables.get("session", ())
        # Which columns there are depends on the version.
        columns = [name for name in _SESSION_COLUMNS if name in table]
        if "id" not in columns:
            return
        sql = f"SELECT {', '.join(columns)} FROM session ORDER BY time_created, id"
        for row in source.rows(sql):
            info = _build_session_info(dict(zip(columns, row, strict=True)))
            if isinstance(info.get("id"), str):
                self.sessions[info["id"]] = info

    def read_messages(self, session_id: str) -> Iterator[Message]:
        """Yield the messages of a session in the order in which OpenCode reads them."""
        if self._is_version_2(session_id):
            return self._read_version_2(session_id)
        return self._read_version_1(session_id)

    def _is_version_2(self, session_id: str) -> bool:
        """Return whether the newer form of the session is that of version 2.

        Some builds wrote both forms. Only the one that the session continued in is complete.
        """
        tables = self._source.tables
        if "session_message" not in tables:
            return False
        if "message" not in tables or "part" not in tables:
            return True
        version_1 = self._find_newest(_NEWEST_V1_SQL, session_id)
        version_2 = self._find_newest(_NEWEST_V2_SQL, session_id)
        if not version_1[1]:
            return bool(version_2[1])
        if version_2[1]:
            self._note_omission(
                "second-form",
                "the session",
                "the same session in the form of another version of OpenCode",
            )
        return version_2 > version_1

    def _find_newest(self, sql: str, session_id: str) -> tuple[float, int]:
        """Return the time of the newest message, and the number of messages."""
        newest, count = next(self._source.rows(sql, (session_id,)))
        if not isinstance(newest, int | float):
            newest = 0
        return newest, count

    def _read_version_1(self, session_id: str) -> Iterator[Message]:
        # Both queries sort alike, so that two cursors advance together.
        part_groups = _PartGroups(self._source.rows(_PARTS_SQL, (session_id,)))
        rows = self._source.rows(_MESSAGES_SQL, (session_id,))
        for number, (message_id, data) in enumerate(rows, 1):
            position = f"message {number}"
            info = self._decode_row(data, position)
            parts = []
            for part_id, part_data in part_groups.take(message_id):
                part = self._decode_row(part_data, position)
                if part:
                    part["id"] = part_id
                    parts.append(part)
            yield {**info, "id": message_id, "sessionID": session_id}, parts
        orphans = next(self._source.rows(_ORPHANS_SQL, (session_id,)))[0]
        if orphans:
            self._note_omission(
                "no-message", "the session", "parts whose message is not in the source"
            )

    def _read_version_2(self, session_id: str) -> Iterator[Message]:
        # Not all builds of version 2 have the column `seq`.
        order = "seq" if "seq" in self._source.tables["session_message"] else "time_created, id"
        rows = self._source.rows(
            f"SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY {order}",
            (session_id,),
        )
        for number, (message_id, kind, data) in enumerate(rows, 1):
            position = f"message {number}"
            record = {**self._decode_row(data, position), "id": message_id}
            yield from _convert_version_2(record, kind, position, self._note_omission)

    def _decode_row(self, data: Any, position: str) -> JsonObject:
        try:
            value = _decode(data) if isinstance(data, str | bytes) else None
        except (ValueError, RecursionError):
            value = None
        if type(value) is dict:
            return value
        self._note_omission("broken-row", position, "row whose data is not a JSON object")
        return {}


class _PartGroups:
    """Rows of parts, in the order of their messages, handed out message by message."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def take(self, message_id: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the ids and data of the parts of the next message."""
        while self._next is not None and self._next[0] == message_id:
            yield self._next[1], self._next[2]
            self._next = next(self._rows, None)


def _build_session_info(row: JsonObject) -> JsonObject:
    """Return a row of the session table in the form of the file of a session."""
    info: JsonObject = {}
    for column, value in row.items():
        if value is not None:
            info[_FIELD_OF_COLUMN.get(column, column)] = value
    with contextlib.suppress(ValueError, RecursionError, TypeError):
        info["revert"] = _decode(row["revert"]) if row.get("revert") else None
    info["time"] = {"created": row.get("time_created"), "updated": row.get("time_updated")}
    if row.get("share_url"):
        info["share"] = {"url": row["share_url"]}
    summary: JsonObject = {}
    for name in ("additions", "deletions", "files"):
        count = row.get(f"summary_{name}")
        if isinstance(count, int):
            summary[name] = count
    if info.get("summary_diffs"):
        summary["diffs"] = info["summary_diffs"]
    info["summary"] = summary
    return info


def get_session_of_row(table: str, row: JsonObject) -> str | None:
    """Return the session of a row; credentials and settings belong to none."""
    if table not in _SESSION_TABLES:
        return None
    if table == "session":
        session_id = row.get("id")
    else:
        session_id = row.get("session_id", row.get("aggregate_id"))
    return session_id if isinstance(session_id, str) else None


def _convert_version_2(
    record: JsonObject, kind: Any, position: str, note_omission: OmissionNoter
) -> Iterator[Message]:
    """Yield a record of version 2 as messages of version 1."""
    user = {"id": record.get("id"), "time": record.get("time"), "role": "user"}
    if kind == "assistant":
        parts = list(_convert_content(record, position, note_omission))
        yield _convert_model_message(record), parts
    elif kind == "user":
        yield user, list(_convert_prompt(record, position, note_omission))
    elif kind in ("synthetic", "skill"):
        yield user, [{"type": "text", "text": record.get("text"), "synthetic": True}]
    elif kind == "system":
        yield user | {"system": record.get("text")}, []
    elif kind == "shell":
        yield user, [{**record, "type": "shell"}]
    elif kind == "compaction":
        yield from _convert_compaction(record, user, position, note_omission)
    # Changes of settings are read like the settings of a prompt.
    elif kind in ("agent-switched", "location-switched"):
        directory = get_text(get_dict(record, "location"), "directory")
        yield user | {"agent": record.get("agent"), "path": directory}, []
    elif kind in ("idle", "model-switched"):
        note_omission("bookkeeping", position, f"record {kind}")
    else:
        note_omission("unknown-record", position, f"record {format_kind(kind)}")


def _convert_model_message(record: JsonObject) -> JsonObject:
    info = {name: record[name] for name in _MESSAGE_FIELDS if record.get(name) is not None}
    error = get_dict(record, "error")
    if error:
        info["error"] = {"name": error.get("type"), "data": error}
    model = get_dict(record, "model")
    info["modelID"] = model.get("id")
    info["providerID"] = model.get("providerID")
    info["variant"] = model.get("variant")
    info["role"] = "assistant"
    return info


def _convert_prompt(
    record: JsonObject, position: str, note_omission: OmissionNoter
) -> Iterator[JsonObject]:
    yield {"type": "text", "text": record.get("text")}
    for file in get_dicts(record, "files"):
        yield _convert_file(file)
    for agent in get_dicts(record, "agents"):
        yield {"type": "agent", "name": agent.get("name"), "source": agent.get("source")}
    for name in ("skills", "references"):
        if get_dicts(record, name):
            note_omission("unknown-part", position, f"part {name}")


def _convert_file(file: JsonObject) -> JsonObject:
    return {
        "type": "file",
        "mime": file.get("mime"),
        "filename": file.get("name"),
        "url": file.get("uri"),
    }


def _convert_content(
    record: JsonObject, position: str, note_omission: OmissionNoter
) -> Iterator[JsonObject]:
    for item in get_dicts(record, "content"):
        kind = item.get("type")
        if kind == "tool":
            yield _convert_tool_call(item)
        elif kind in ("text", "reasoning"):
            # This field has had three names in the builds of version 2.
            metadata = item.get("native", item.get("state", item.get("providerMetadata")))
            start = get_dict(item, "time").get("created")
            yield {**item, "metadata": metadata, "time": {"start": start}}
        else:
            note_omission("unknown-part", position, f"part {format_kind(kind)}")
    retry = get_dict(record, "retry")
    if retry:
        error = {"data": retry.get("error")}
        yield {"type": "retry", "attempt": retry.get("attempt"), "error": error}
    snapshot = get_dict(record, "snapshot")
    if snapshot.get("files"):
        yield {"type": "patch", "hash": snapshot.get("end"), "files": snapshot["files"]}


def _convert_tool_call(item: JsonObject) -> JsonObject:
    state = get_dict(item, "state")
    status = state.get("status")
    arguments = state.get("input")
    content = get_dicts(state, "content")
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    output = "\n".join(text for text in texts if isinstance(text, str))
    metadata = get_dict(state, "metadata")
    time = get_dict(item, "time")
    converted: JsonObject = {
        "status": status,
        "input": arguments if type(arguments) is dict else {},
        "raw": arguments,
        "metadata": metadata,
        "time": {"start": time.get("ran", time.get("created")), "end": time.get("completed")},
        "attachments": [_convert_file(block) for block in content if block.get("type") == "file"],
    }
    if status == "completed":
        converted["output"] = output
    elif status == "error":
        converted["error"] = get_text(get_dict(state, "error"), "message") or ""
        if output:
            converted["metadata"] = {**metadata, "interrupted": True, "output": output}
    return {"type": "tool", "callID": item.get("id"), "tool": item.get("name"), "state": converted}


def _convert_compaction(
    record: JsonObject, user: JsonObject, position: str, note_omission: OmissionNoter
) -> Iterator[Message]:
    yield user, [{"type": "compaction", "auto": record.get("reason") == "auto"}]
    if record.get("recent"):
        note_omission("replacement-history", position, "copy of the context after a compaction")
    summary = get_text(record, "summary")
    if summary or record.get("error"):
        message = _convert_model_message(record) | {"summary": True}
        yield message, [{"type": "text", "text": summary}]
