"""OpenCode's SQLite database: sessions, messages and parts as rows, in the form of version 1 and of
version 2."""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.agents.opencode.storage import Message, Skip
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text
from open_token.formats.shared.notes import format_kind
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_COLUMNS = (
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
_NAMES = {"project_id": "projectID", "parent_id": "parentID"}
_MINE = ("session", "message", "part", "session_message", "session_input", "todo")


class Rows:
    """The rows of a database as a store."""

    def __init__(self, source: Source, skip: Skip) -> None:
        self._source = source
        self._skip = skip
        self.home: dict[str, str] = {}
        columns = [name for name in _COLUMNS if name in source.tables.get("session", ())]
        if "id" not in columns:
            self.sessions: dict[str, JsonObject] = {}
            return
        rows = source.rows(f"SELECT {', '.join(columns)} FROM session ORDER BY time_created, id")
        infos = (_info(dict(zip(columns, row, strict=True))) for row in rows)
        self.sessions = {info["id"]: info for info in infos if isinstance(info.get("id"), str)}

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages of a session in the order in which OpenCode itself reads them."""
        if self._goes_on_in_v2(session_id):
            return self._turns(session_id)
        return self._messages(session_id)

    def _goes_on_in_v2(self, session_id: str) -> bool:
        """Version 2 writes other rows, and some builds wrote both; the form in which the talk went
        on is the whole."""
        tables = self._source.tables
        if "session_message" not in tables:
            return False
        if "message" not in tables or "part" not in tables:
            return True
        v1 = self._newest(
            "SELECT max(time_created), count(*) FROM message WHERE session_id = ?", session_id
        )
        v2 = self._newest(
            "SELECT max(time_created), count(*) FROM session_message WHERE session_id = ? AND type = 'user'",
            session_id,
        )
        if v1[1] and v2[1]:
            self._skip(
                "second-form",
                "the session",
                "the same session as another version of OpenCode keeps it",
            )
        return v2 > v1 if v1[1] else bool(v2[1])

    def _newest(self, sql: str, session_id: str) -> tuple[float, int]:
        newest, count = next(self._source.rows(sql, (session_id,)))
        return (newest if isinstance(newest, int | float) else 0), count

    def _messages(self, session_id: str) -> Iterator[Message]:
        parts = _Grouped(
            self._source.rows(
                "SELECT p.message_id, p.id, p.data FROM part p JOIN message m ON m.id = p.message_id "
                "WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id",
                (session_id,),
            )
        )
        rows = self._source.rows(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            (session_id,),
        )
        for number, (name, data) in enumerate(rows, 1):
            place = f"message {number}"
            info = self._value(data, place)
            inside = [self._value(part, place, id=part_id) for part_id, part in parts.of(name)]
            yield {**info, "id": name, "sessionID": session_id}, [part for part in inside if part]
        orphans = next(
            self._source.rows(
                "SELECT count(*) FROM part WHERE session_id = ? AND message_id NOT IN (SELECT id FROM message)",
                (session_id,),
            )
        )[0]
        if orphans:
            self._skip("no-message", "the session", "parts whose message is not in the source")

    def _turns(self, session_id: str) -> Iterator[Message]:
        order = "seq" if "seq" in self._source.tables["session_message"] else "time_created, id"
        rows = self._source.rows(
            f"SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY {order}",
            (session_id,),
        )
        for number, (name, kind, data) in enumerate(rows, 1):
            place = f"message {number}"
            yield from turned({**self._value(data, place), "id": name}, kind, place, self._skip)

    def _value(self, data: Any, place: str, **more: Any) -> JsonObject:
        try:
            value = _decode(data) if isinstance(data, str | bytes) else None
        except (ValueError, RecursionError):
            value = None
        if type(value) is dict:
            return {**value, **more}
        self._skip("broken-row", place, "a row whose data is no JSON object")
        return {}


class _Grouped:
    """Parts in the order of their messages, handed out message by message: both are sorted
    alike."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, message_id: Any) -> Iterator[tuple[Any, Any]]:
        """The ids and data of the parts of a message."""
        while self._next is not None and self._next[0] == message_id:
            yield self._next[1], self._next[2]
            self._next = next(self._rows, None)


def _info(row: JsonObject) -> JsonObject:
    """A row of the session table as the file of a session has it."""
    info = {_NAMES.get(name, name): value for name, value in row.items() if value is not None}
    with contextlib.suppress(ValueError, RecursionError, TypeError):
        info["revert"] = _decode(row["revert"]) if row.get("revert") else None
    info["time"] = {"created": row.get("time_created"), "updated": row.get("time_updated")}
    if row.get("share_url"):
        info["share"] = {"url": row["share_url"]}
    counts = {name: row.get(f"summary_{name}") for name in ("additions", "deletions", "files")}
    info["summary"] = {name: count for name, count in counts.items() if isinstance(count, int)}
    if info.get("summary_diffs"):
        info["summary"]["diffs"] = info["summary_diffs"]
    return info


def session_of(table: str, row: JsonObject) -> str | None:
    """The session that a row belongs to; credentials, shares and settings belong to none."""
    name = row.get("id") if table == "session" else row.get("session_id", row.get("aggregate_id"))
    return name if isinstance(name, str) and (table in _MINE or table == "event") else None


_KEPT = ("id", "time", "agent", "finish", "cost", "tokens", "error")


def turned(record: JsonObject, kind: Any, place: str, skip: Skip) -> Iterator[Message]:
    """The message or messages that a row is."""
    said = {"id": record.get("id"), "time": record.get("time"), "role": "user"}
    if kind == "assistant":
        yield _assistant(record), list(_content(record, place, skip))
    elif kind == "user":
        yield said, list(_prompt(record, place, skip))
    elif kind in ("synthetic", "skill"):
        yield said, [{"type": "text", "text": record.get("text"), "synthetic": True}]
    elif kind == "system":
        yield said | {"system": record.get("text")}, []
    elif kind == "shell":
        yield said, [{**record, "type": "shell"}]
    elif kind == "compaction":
        yield from _compaction(record, said, place, skip)
    elif kind in ("agent-switched", "location-switched"):
        folder = get_text(get_dict(record, "location"), "directory")
        yield said | {"agent": record.get("agent"), "path": folder}, []
    elif kind in ("idle", "model-switched"):
        skip("bookkeeping", place, f"record {kind}")
    else:
        skip("unknown-record", place, f"record {format_kind(kind)}")


def _assistant(record: JsonObject) -> JsonObject:
    model = get_dict(record, "model")
    info = {name: record[name] for name in _KEPT if record.get(name) is not None}
    named = {
        "modelID": model.get("id"),
        "providerID": model.get("providerID"),
        "variant": model.get("variant"),
    }
    error = get_dict(record, "error")
    if error:
        info["error"] = {"name": error.get("type"), "data": error}
    return info | named | {"role": "assistant"}


def _prompt(record: JsonObject, place: str, skip: Skip) -> Iterator[JsonObject]:
    yield {"type": "text", "text": record.get("text")}
    for file in get_dicts(record, "files"):
        yield _file(file)
    for agent in get_dicts(record, "agents"):
        yield {"type": "agent", "name": agent.get("name"), "source": agent.get("source")}
    for name in ("skills", "references"):
        if get_dicts(record, name):
            skip("unknown-part", place, f"part {name}")


def _file(file: JsonObject) -> JsonObject:
    return {
        "type": "file",
        "mime": file.get("mime"),
        "filename": file.get("name"),
        "url": file.get("uri"),
    }


def _content(record: JsonObject, place: str, skip: Skip) -> Iterator[JsonObject]:
    for item in get_dicts(record, "content"):
        kind = item.get("type")
        if kind == "tool":
            yield _tool(item)
        elif kind in ("text", "reasoning"):
            metadata = item.get("native", item.get("state", item.get("providerMetadata")))
            yield {
                **item,
                "metadata": metadata,
                "time": {"start": get_dict(item, "time").get("created")},
            }
        else:
            skip("unknown-part", place, f"part {format_kind(kind)}")
    retry = get_dict(record, "retry")
    if retry:
        yield {
            "type": "retry",
            "attempt": retry.get("attempt"),
            "error": {"data": retry.get("error")},
        }
    snapshot = get_dict(record, "snapshot")
    if snapshot.get("files"):
        yield {"type": "patch", "hash": snapshot.get("end"), "files": snapshot["files"]}


def _tool(item: JsonObject) -> JsonObject:
    state, time = get_dict(item, "state"), get_dict(item, "time")
    given, content = state.get("input"), get_dicts(state, "content")
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    output = "\n".join(text for text in texts if isinstance(text, str))
    made: JsonObject = {
        "status": state.get("status"),
        "input": given if type(given) is dict else {},
        "raw": given,
    }
    made["metadata"] = get_dict(state, "metadata")
    made["time"] = {"start": time.get("ran", time.get("created")), "end": time.get("completed")}
    if state.get("status") == "completed":
        made["output"] = output
    elif state.get("status") == "error":
        made["error"] = get_text(get_dict(state, "error"), "message") or ""
        if output:
            made["metadata"] = {**made["metadata"], "interrupted": True, "output": output}
    made["attachments"] = [_file(block) for block in content if block.get("type") == "file"]
    return {"type": "tool", "callID": item.get("id"), "tool": item.get("name"), "state": made}


def _compaction(record: JsonObject, said: JsonObject, place: str, skip: Skip) -> Iterator[Message]:
    yield said, [{"type": "compaction", "auto": record.get("reason") == "auto"}]
    if record.get("recent"):
        skip("replacement-history", place, "the copied context after a compaction")
    summary = get_text(record, "summary")
    if summary or record.get("error"):
        yield _assistant(record) | {"summary": True}, [{"type": "text", "text": summary}]
