"""Read sessions of Crush from its database, with the subagents that they started."""

from typing import Any
from weakref import WeakKeyDictionary

from open_token.builder.draft import Draft
from open_token.formats.shared.child_sessions import add_child_session, is_left_out
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    get_dict,
    get_text,
    parse_arguments,
    parse_json_text,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.session_tables import (
    NO_OWNER,
    count_messages,
    get_session_id,
    read_messages,
    read_sessions,
)
from open_token.formats.shared.session_tree import SessionTree
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Found
from open_token.sources.source import Source

_USUAL_STOPS = ("end_turn", "tool_use", "stop", "", None)
_FIRST_MILLISECONDS = 100_000_000_000
"""Times from here on are in milliseconds: as seconds they would be after the year 5000."""
_TITLE_PREFIX = "title-"
_PARENT = "parent_session_id"
_trees: WeakKeyDictionary[Source, SessionTree] = WeakKeyDictionary()


class SessionReader:
    """Reads one session of a database."""

    def __init__(self, source: Source, draft: Draft, sessions: dict[str, JsonObject]) -> None:
        self._source = source
        self._draft = draft
        self._sessions = sessions
        self._tree = SessionTree(sessions, _PARENT)
        self._providers = ProviderTracker()
        self._provider: str | None = None
        self._client = draft.get_actor("system", "Crush")

    def read(self, session_id: str) -> None:
        """Read a session into the draft."""
        info = self._sessions[session_id]
        conversation = self._draft.conversation
        conversation["source_runtime"] = "cli"
        set_conversation_facts(
            self._draft,
            conversation_id=session_id,
            title=get_text(info, "title"),
            started_at=_parse_time(info.get("created_at")),
        )
        self._read_thread(session_id, Thread(self._draft, self._client, self._find_provider))
        self._providers.set_provider(conversation)

    def _find_provider(self, model: str) -> str | None:
        return self._providers.add_model(self._provider, model or None)

    def _read_thread(self, session_id: str, thread: Thread) -> None:
        for row in read_messages(self._source, session_id, "created_at, rowid"):
            self._read_message(row, thread)
        for child in self._tree.get_children(session_id):
            if child.startswith(_TITLE_PREFIX):
                self._draft.note_omission("title-session", child, "a session that finds a title")
        self._read_totals(session_id, thread)

    def _read_message(self, row: JsonObject, thread: Thread) -> None:
        place = f"message {row.get('id')}"
        ts = _parse_time(row.get("created_at"))
        thread.last_ts = ts or thread.last_ts
        parts = parse_json_text(row.get("parts"))
        if not isinstance(parts, list):
            self._draft.note_omission("skipped-record", place, "parts that are not a list")
            return
        role = row.get("role")
        if role == "assistant":
            self._provider = get_text(row, "provider")
            thread.set_model(row.get("model"))
        for part in as_dicts(parts):
            self._read_part(part, role, row, ts, thread)
        if row.get("is_summary_message") == 1:
            thread.add_annotation({"kind": "compaction_summary"}, ts=ts)

    def _read_part(
        self, part: JsonObject, role: Any, row: JsonObject, ts: str | None, thread: Thread
    ) -> None:
        kind = part.get("type")
        data = get_dict(part, "data")
        text = get_text(data, "text")
        if kind == "text" and text is None:
            return
        if kind == "text":
            self._add_content(text or "", role, ts, thread)
        elif kind == "reasoning":
            # Providers that encrypt it leave an empty text.
            if get_text(data, "thinking") or data.get("responses_data"):
                thread.add_reasoning(get_text(data, "thinking"), ts=ts)
        elif kind == "tool_call":
            self._read_call(data, row, ts, thread)
        elif kind == "tool_result":
            self._read_result(data, ts, thread)
        elif kind == "finish":
            self._read_finish(data, ts, thread)
        elif kind == "shell_command":
            self._read_command(data, ts, thread)
        elif kind in ("binary", "image_url"):
            self._add_content([_build_media(data)], role, ts, thread)
        else:
            self._draft.note_omission(
                "unknown-part", f"message {row.get('id')}", f"part {format_kind(kind)}"
            )

    def _add_content(
        self, content: str | list[Any], role: Any, ts: str | None, thread: Thread
    ) -> None:
        if role == "assistant":
            thread.add_message("assistant", content, thread.model_actor, ts=ts)
        elif role == "system":
            thread.add_message("system", content, self._client, ts=ts)
        else:
            thread.add_message("user", content, thread.get_user_actor(), ts=ts)

    def _read_call(self, data: JsonObject, row: JsonObject, ts: str | None, thread: Thread) -> None:
        if not thread.model_actor:
            thread.set_model(row.get("model"))
        call_id = get_text(data, "id")
        tool = get_text(data, "name") or "tool"
        key = thread.add_tool_call(
            call_id, tool, parse_arguments(data.get("input")), ts=ts, group=row.get("id")
        )
        # A subagent is a session that is named after the message and the call.
        child = f"{row.get('id')}$${call_id}"
        if child in self._sessions:
            self._read_subagent(child, key, ts, thread)

    def _read_subagent(self, session_id: str, call: str, ts: str | None, parent: Thread) -> None:
        if is_left_out(parent, session_id):
            return
        add_child_session(
            parent,
            session_id,
            lambda child: self._read_thread(session_id, child),
            title=get_text(self._sessions[session_id], "title"),
            count_records=lambda: count_messages(self._source).get(session_id, 0),
            call=call,
            ts=ts,
        )

    def _read_result(self, data: JsonObject, ts: str | None, thread: Thread) -> None:
        output: Any = data.get("content")
        media = get_text(data, "data")
        if media:
            block = build_media_block(get_text(data, "mime_type"), media, "image")
            output = [{"type": "text", "text": output}, block] if output else [block]
        thread.add_tool_result(
            get_text(data, "tool_call_id"),
            "" if output is None else output,
            ts=ts,
            facts={"is_error": True} if data.get("is_error") is True else None,
            tool=get_text(data, "name"),
        )

    def _read_finish(self, data: JsonObject, ts: str | None, thread: Thread) -> None:
        reason = data.get("reason")
        facts = pick_fields(data, "message", "details")
        if reason in _USUAL_STOPS and not any(facts.values()):
            return
        kinds = {"canceled": "interrupted", "error": "api_error"}
        kind = kinds.get(reason, "stop") if isinstance(reason, str) else "stop"
        thread.add_annotation({"kind": kind, "reason": reason, **facts}, ts=ts)

    def _read_command(self, data: JsonObject, ts: str | None, thread: Thread) -> None:
        facts = pick_fields(data, "exit_code")
        command = get_text(data, "command") or ""
        add_user_command(self._draft, command, thread.get_user_actor(), facts, ts=ts)
        add_command_output(self._draft, get_text(data, "output") or "", self._client, ts=ts)

    def _read_totals(self, session_id: str, thread: Thread) -> None:
        info = self._sessions[session_id]
        todos = parse_json_text(info.get("todos"))
        if todos:
            thread.add_annotation({"kind": "plan_status", "todos": todos})
        usage = build_usage(
            input_tokens=info.get("prompt_tokens"), output_tokens=info.get("completion_tokens")
        )
        cost = info.get("cost")
        if cost or (usage and any(usage.values())):
            facts = {"cost_usd": cost} if cost else {}
            thread.add_annotation({"kind": "session_totals", **facts}, usage=usage)
        if "files" in self._source.tables:
            sql = "SELECT count(*) FROM files WHERE session_id = ?"
            for (count,) in self._source.rows(sql, (session_id,)):
                if count:
                    self._draft.note_omission("file-versions", session_id, "versions of files")


def _build_media(data: JsonObject) -> JsonObject:
    url = get_text(data, "url")
    if url:
        return build_media_url_block(url, "image")
    block = build_media_block(get_text(data, "MIMEType"), get_text(data, "Data") or "", "image")
    path = get_text(data, "Path")
    return {**block, "path": path} if path else block


def _parse_time(value: Any) -> str | None:
    """Return a time; versions differ in whether they count seconds or milliseconds."""
    if type(value) is not int:
        return None
    return from_epoch(value, 0.001 if value >= _FIRST_MILLISECONDS else 1.0)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen session, or the first one, into the draft."""
    sessions = read_sessions(source, "created_at")
    session_id = source.conversation or next(iter(SessionTree(sessions, _PARENT).roots), None)
    if session_id in sessions:
        SessionReader(source, draft, sessions).read(session_id)


def list_conversations(source: Source) -> list[Found]:
    """List the sessions that no other session started."""
    sessions = read_sessions(source, "created_at")
    counts = count_messages(source)
    return [
        Found(
            session_id,
            title=get_text(sessions[session_id], "title"),
            started_at=_parse_time(sessions[session_id].get("created_at")),
            updated_at=_parse_time(sessions[session_id].get("updated_at")),
            messages=counts.get(session_id, 0),
        )
        for session_id in SessionTree(sessions, _PARENT).roots
    ]


def _get_tree(source: Source) -> SessionTree:
    # Every row asks for its owner.
    if source not in _trees:
        _trees[source] = SessionTree(read_sessions(source, "created_at"), _PARENT)
    return _trees[source]


def find_owner(source: Source, position: str, value: Any) -> str | None:
    """Return the session that a row belongs to, or the one that started that."""
    session_id = get_session_id(position, value)
    if session_id is None:
        return NO_OWNER
    return _get_tree(source).find_root(session_id)
