"""Read a Goose session from the database, a session file or an export, with its subagents."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

from open_token.agents.goose.blocks import decode_json, parse_time
from open_token.agents.goose.messages import MessageReader
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.session_tree import SessionTree
from open_token.model.document import Found
from open_token.sources.containers import quote_identifier
from open_token.sources.source import Source

_SESSION_COLUMNS = (
    "id",
    "name",
    "description",
    "session_type",
    "working_dir",
    "created_at",
    "updated_at",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "accumulated_total_tokens",
    "accumulated_input_tokens",
    "accumulated_output_tokens",
    "accumulated_cache_read_tokens",
    "accumulated_cache_write_tokens",
    "accumulated_cost",
    "schedule_id",
    "recipe_json",
    "provider_name",
    "model_config_json",
    "goose_mode",
    "parent_session_id",
    "parent_delegation",
)
_CONTEXT_FIELDS = {
    "working_dir": "cwd",
    "session_type": "session_type",
    "goose_mode": "mode",
    "schedule_id": "schedule_id",
    "parent_session_id": "parent_id",
}
_HEADER_FIELDS = (
    "working_dir",
    "description",
    "message_count",
    "total_tokens",
    "extension_data",
    "schedule_id",
)
_MESSAGE_TABLES = ("messages", "thread_messages")
_OPTIONAL_COLUMNS = ("message_id", "created_timestamp", "metadata_json")
_SESSION_ID = re.compile(r"\d{8}_\d{1,9}")
_MAX_DEPTH = 16
_NO_OWNER = "(nobody)"
"""The owner of settings: no conversation has this id."""
_databases: WeakKeyDictionary[Source, tuple[dict[str, JsonObject], SessionTree]] = (
    WeakKeyDictionary()
)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen session, or the first one, into the draft."""
    if source.shape == "sqlite":
        sessions, lineage = _open_database(source)
        session_id = source.conversation or next(iter(lineage.roots), None)
        if session_id in sessions:
            _DatabaseReader(source, draft, sessions, lineage).read(session_id)
        return
    records = source.records()
    number, value = next(records, (0, None))
    first: JsonObject = value if type(value) is dict else {}
    if isinstance(first.get("conversation"), list):
        messages = enumerate(first["conversation"], 1)
        _read_messages(draft, first, ((f"message {number}", value) for number, value in messages))
        return
    session_id = _get_id_from_name(source)
    lines: Iterator[tuple[str, Any]] = ((f"line {number}", value) for number, value in records)
    if "role" in first or first.keys().isdisjoint(_HEADER_FIELDS):
        # A file without a header.
        lines = chain([(f"line {number}", value)], lines)
        _read_messages(draft, {"id": session_id}, lines)
    else:
        _read_messages(draft, {**first, "id": session_id}, lines)


def _get_id_from_name(source: Source) -> str | None:
    """Return the name of a session file if it is an id: a day and a number."""
    name = PurePath(source.name).name.split(".")[0]
    return name if source.path is not None and _SESSION_ID.fullmatch(name) else None


def _read_messages(draft: Draft, info: JsonObject, messages: Iterator[tuple[str, Any]]) -> None:
    reader = MessageReader(draft, asker=draft.get_actor("human", "user"))
    _read_context(reader, info)
    for position, message in messages:
        if type(message) is dict:
            reader.read(message, position)
        else:
            draft.note_omission("skipped-record", position, "message that is not an object")
    _annotate_totals(reader, info)
    reader.providers.set_provider(draft.conversation)


def _read_context(reader: MessageReader, info: JsonObject) -> None:
    """Read what the session is, where it ran, and its instructions."""
    draft = reader.draft
    reader.provider = get_text(info, "provider_name")
    reader.model = get_text(get_dict(info, "model_config"), "model_name")
    if reader.span is None:
        session_id = get_text(info, "id")
        if session_id:
            draft.conversation["id"] = session_id
        title = get_text(info, "name") or get_text(info, "description")
        if title:
            draft.conversation["title"] = title
        started_at = parse_time(info.get("created_at"))
        if started_at:
            draft.conversation["started_at"] = started_at
    # Session files and exports use the names of the database columns.
    facts = {name: info[key] for key, name in _CONTEXT_FIELDS.items() if get_text(info, key)}
    if facts:
        draft.add_annotation({"kind": "context", **facts}, actor=reader.client, span=reader.span)
    recipe = get_dict(info, "recipe")
    instructions = get_text(recipe, "instructions")
    if instructions:
        draft.add_message("system", instructions, reader.client, span=reader.span)
    if recipe.keys() - {"instructions"}:
        draft.note_omission("recipe", "the session", "a recipe except its instructions")
    if info.get("extension_data"):
        draft.note_omission("bookkeeping", "the session", "the state of extensions")


def _annotate_totals(reader: MessageReader, info: JsonObject) -> None:
    """Add the totals of the session, which are the sums of the counts of its messages."""
    totals: JsonObject = {}
    for name, value in info.items():
        if name.endswith(("_tokens", "_cost")) and type(value) in (int, float) and value:
            totals[name] = value
    for name in ("usage", "accumulated_usage"):
        counts = {
            key: value
            for key, value in get_dict(info, name).items()
            if type(value) in (int, float) and value
        }
        if counts:
            totals[name] = counts
    if totals:
        data = {"kind": "session_totals", **totals}
        reader.draft.add_annotation(data, actor=reader.client, span=reader.span)


def list_conversations(source: Source) -> list[Found]:
    """List the sessions of a database that no other session started."""
    if source.shape != "sqlite":
        return []
    sessions, lineage = _open_database(source)
    if not sessions:
        return []
    counts = dict(source.rows("SELECT session_id, count(*) FROM messages GROUP BY session_id"))
    return [_describe(name, sessions[name], counts) for name in lineage.roots]


def _describe(session_id: str, info: JsonObject, counts: dict[Any, Any]) -> Found:
    return Found(
        session_id,
        title=get_text(info, "name") or get_text(info, "description"),
        started_at=parse_time(info.get("created_at")),
        updated_at=parse_time(info.get("updated_at")),
        cwd=get_text(info, "working_dir"),
        messages=counts.get(session_id, 0),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the conversation that a row belongs to; rows about providers belong to none."""
    if source.shape != "sqlite":
        return None  # a file is one conversation
    session_id = value.get("id") if at == "sessions" else value.get("session_id")
    if not isinstance(session_id, str):
        return _NO_OWNER
    _, lineage = _open_database(source)
    return lineage.find_root(session_id)


def _open_database(source: Source) -> tuple[dict[str, JsonObject], SessionTree]:
    if source not in _databases:
        sessions = _read_sessions(source)
        _databases[source] = (sessions, SessionTree(sessions, "parent_session_id"))
    return _databases[source]


def _read_sessions(source: Source) -> dict[str, JsonObject]:
    """Return all sessions of a database in the order of their creation."""
    # Which columns there are depends on the version of the schema.
    columns = [name for name in _SESSION_COLUMNS if name in source.tables.get("sessions", ())]
    if "id" not in columns:
        return {}
    order = "created_at, id" if "created_at" in columns else "id"
    sessions: dict[str, JsonObject] = {}
    for row in source.rows(f"SELECT {', '.join(columns)} FROM sessions ORDER BY {order}"):
        info = {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        # Exports hold these as objects, the database as JSON text.
        for name in ("recipe", "model_config"):
            info[name] = decode_json(info.pop(f"{name}_json", None))
        if isinstance(info.get("id"), str):
            sessions[info["id"]] = info
    return sessions


class _DatabaseReader:
    """Reads a session of a database with the sessions that it delegated to."""

    def __init__(
        self, source: Source, draft: Draft, sessions: dict[str, JsonObject], lineage: SessionTree
    ) -> None:
        self._source = source
        self._draft = draft
        self._sessions = sessions
        self._lineage = lineage

    def read(self, session_id: str) -> None:
        """Read the session that is the conversation."""
        reader = MessageReader(self._draft, asker=self._draft.get_actor("human", "user"))
        self._read_session(reader, session_id, 0)
        reader.providers.set_provider(self._draft.conversation)

    def _read_session(self, reader: MessageReader, session_id: str, depth: int) -> None:
        info = self._sessions[session_id]
        _read_context(reader, info)
        delegations = self._group_delegations(session_id)
        label = "subagent " if depth else ""
        for number, message in enumerate(self._iterate_messages(session_id), 1):
            reader.read(message, f"{label}message {number}")
            if not isinstance(message["id"], str):
                continue
            children = delegations.pop(message["id"], [])
            calls: list[str | None] = [
                key for key, tool in reader.calls if "delegate" in tool or "subagent" in tool
            ]
            # Which call started which session is known only if there is one call for each.
            if len(calls) != len(children):
                calls = [None] * len(children)
            for child, call in zip(children, calls, strict=True):
                self._read_subagent(reader, child, call, depth)
        for children in delegations.values():
            for child in children:
                self._read_subagent(reader, child, None, depth)
        _annotate_totals(reader, info)
        self._note_other_tables(session_id, f"{label}session")

    def _note_other_tables(self, session_id: str, position: str) -> None:
        """Note the rows of a session in tables that are not exported."""
        for table, columns in self._source.tables.items():
            if "session_id" not in columns or table in _MESSAGE_TABLES:
                continue
            sql = f"SELECT count(*) FROM {quote_identifier(table)} WHERE session_id = ?"
            count = next(self._source.rows(sql, (session_id,)), (0,))[0]
            for _ in range(count):
                self._draft.note_omission(
                    "other-table", position, f"row of the table {format_kind(table)}"
                )

    def _group_delegations(self, session_id: str) -> dict[str, list[str]]:
        """Return the sessions that one delegated to, by the id of the message that did."""
        delegations: dict[str, list[str]] = {}
        for child in self._lineage.get_children(session_id):
            delegation = decode_json(self._sessions[child].get("parent_delegation"))
            message_id = get_text(delegation, "parent_delegate_message_id") or ""
            delegations.setdefault(message_id, []).append(child)
        return delegations

    def _read_subagent(
        self, reader: MessageReader, session_id: str, call: str | None, depth: int
    ) -> None:
        draft = self._draft
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
            return
        info = self._sessions[session_id]
        data: JsonObject = {"kind": "subagent"}
        name = get_text(info, "name")
        if name:
            data["spawn_reason"] = name
        model = get_text(get_dict(info, "model_config"), "model_name")
        if model:
            data["model"] = model
        data["session_id"] = session_id
        is_inline = draft.subagents == "inline" and depth < _MAX_DEPTH
        if not is_inline:
            data["reference"] = session_id
        asker = reader.get_model_actor()
        span = draft.start_span(data, asker, ts=parse_time(info.get("created_at")), call=call)
        if is_inline:
            inner = MessageReader(draft, asker=asker, name="subagent", span=span)
            inner.providers = reader.providers
            self._read_session(inner, session_id, depth + 1)
        draft.end_span(span, ts=parse_time(info.get("updated_at")), call=call)

    def _iterate_messages(self, session_id: str) -> Iterator[JsonObject]:
        """Yield the messages in the order in which Goose reads them."""
        # One version stored messages in threads instead.
        for table in _MESSAGE_TABLES:
            columns = self._source.tables.get(table, [])
            if "content_json" not in columns or "session_id" not in columns:
                continue
            optional = [name if name in columns else "NULL" for name in _OPTIONAL_COLUMNS]
            order = "created_timestamp, id" if "created_timestamp" in columns else "id"
            rows = self._source.rows(
                f"SELECT role, content_json, {', '.join(optional)} FROM {table}"
                f" WHERE session_id = ? ORDER BY {order}",
                (session_id,),
            )
            has_rows = False
            for role, content, message_id, created, metadata in rows:
                has_rows = True
                blocks = decode_json(content)
                yield {
                    "role": role,
                    "content": blocks if isinstance(blocks, list) else None,
                    "id": message_id,
                    "created": created,
                    "metadata": decode_json(metadata),
                }
            if has_rows:
                return
