"""Read conversations of Kiro CLI and Amazon Q CLI: a database, or a file for each session.

In the database the value of a row is JSON with a `history` of pairs: what the user's side sent (a
prompt, or the results of tools), and what the model answered. Variants are objects with one key, as
Rust writes enumerations: `{"Prompt": {"prompt": ...}}`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from open_token.agents.kiro_cli.detect import find_table
from open_token.agents.kiro_cli.event_log import EventLogReader
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    get_dict,
    get_text,
    parse_arguments,
    parse_json_text,
)
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Found
from open_token.model.titles import make_title
from open_token.sources.source import Source

_NO_OWNER = "(nobody)"
_MILLISECONDS = 0.001


class _Row(NamedTuple):
    """One conversation."""

    id: str
    folder: str
    value: JsonObject
    created_at: Any
    updated_at: Any


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation, or the first one, into the draft."""
    if source.shape != "sqlite":
        EventLogReader(source, draft).read()
        return
    for row in _iter_rows(source):
        if source.conversation in (None, row.id):
            _ConversationReader(draft).read(row)
            return


def list_conversations(source: Source) -> list[Found]:
    """List the conversations of a database, oldest first; a file is one conversation."""
    if source.shape != "sqlite":
        return []
    found = []
    for row in _iter_rows(source):
        pairs = as_dicts(row.value.get("history"))
        found.append(
            Found(
                row.id,
                title=_find_title(pairs),
                started_at=_parse_row_time(row.created_at) or _find_first_time(pairs),
                updated_at=_parse_row_time(row.updated_at),
                cwd=row.folder or None,
                messages=len(pairs),
            )
        )
    return found


def find_owner(source: Source, position: str, value: Any) -> str | None:
    """Return the conversation that a row belongs to."""
    if source.shape != "sqlite":
        return None
    if position != find_table(source) or not isinstance(value, dict):
        return _NO_OWNER
    return _get_id(value, parse_json_text(value.get("value")))


def _iter_rows(source: Source) -> Iterator[_Row]:
    table = find_table(source)
    if table is None:
        return
    names = source.tables[table]
    order = "updated_at, rowid" if "updated_at" in names else "rowid"
    wanted = [name for name in _COLUMNS if name in names]
    for values in source.rows(f"SELECT {', '.join(wanted)} FROM {table} ORDER BY {order}"):
        row = dict(zip(wanted, values, strict=True))
        value = parse_json_text(row.get("value"))
        if isinstance(value, dict):
            yield _Row(
                _get_id(row, value),
                get_text(row, "key") or "",
                value,
                row.get("created_at"),
                row.get("updated_at"),
            )


_COLUMNS = ("key", "conversation_id", "value", "created_at", "updated_at")


def _get_id(row: JsonObject, value: Any) -> str:
    """Return the id of a conversation; Amazon Q CLI stores it in the value alone."""
    return (
        get_text(row, "conversation_id")
        or get_text(value, "conversation_id")
        or get_text(row, "key")
        or "conversation"
    )


class _ConversationReader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._person = draft.get_actor("human", "user")
        self._client = draft.get_actor("system", "Kiro CLI")
        self._model = ""

    def read(self, row: _Row) -> None:
        """Read one conversation."""
        draft = self._draft
        draft.conversation["id"] = row.id
        draft.conversation["source_runtime"] = "cli"
        started = _parse_row_time(row.created_at)
        if started:
            draft.conversation["started_at"] = started
        model_info = get_dict(row.value, "model_info")
        model = get_text(model_info, "model_id") or get_text(row.value, "model")
        self._model = draft.get_actor("model", "assistant", model=model)
        context: JsonObject = {"kind": "context"}
        if row.folder:
            context["cwd"] = row.folder
        draft.add_annotation(context)
        self._read_summary(row.value.get("latest_summary"))
        history = row.value.get("history")
        pairs = history if isinstance(history, list) else []
        for number, pair in enumerate(pairs, 1):
            self._read_pair(pair, f"history {number}")
        # Typed, but not sent yet when the conversation was stored.
        waiting = row.value.get("next_message")
        if isinstance(waiting, dict):
            self._read_user(waiting, "next_message")

    def _read_summary(self, summary: Any) -> None:
        """Read the summary that replaced older messages: a text, or a text with its metadata."""
        parts = summary if isinstance(summary, list) else [summary]
        for text in parts:
            if isinstance(text, str) and text:
                self._draft.add_message("user", text, self._client, visibility="internal")
                self._draft.add_annotation({"kind": "compaction_summary"})

    def _read_pair(self, pair: Any, place: str) -> None:
        # Until 2025 a pair was a list of two.
        if isinstance(pair, list) and len(pair) == 2:
            pair = {"user": pair[0], "assistant": pair[1]}
        if not isinstance(pair, dict):
            self._draft.note_omission("skipped-record", place, "a pair that is no object")
            return
        self._read_user(get_dict(pair, "user"), place)
        self._read_assistant(get_dict(pair, "assistant"), place)
        for name in pair.keys() - {"user", "assistant", "request_metadata"}:
            detail = f"a field {format_kind(name)} of a pair"
            self._draft.note_omission("unknown-record", place, detail)

    def _read_user(self, user: JsonObject, place: str) -> None:
        ts = to_utc(get_text(user, "timestamp") or "")
        for kind, content in get_dict(user, "content").items():
            if kind not in ("Prompt", "ToolUseResults", "CancelledToolUses"):
                detail = f"content {format_kind(kind)}"
                self._draft.note_omission("unknown-record", place, detail)
                continue
            if not isinstance(content, dict):
                continue
            for result in as_dicts(content.get("tool_use_results")):
                self._read_result(result, ts, is_cancelled=kind == "CancelledToolUses")
            prompt = get_text(content, "prompt")
            if prompt:
                self._draft.add_message("user", prompt, self._person, ts=ts)
        images = user.get("images")
        if images:
            self._draft.add_annotation({"kind": "attachment", "images": images}, ts=ts)

    def _read_result(self, result: JsonObject, ts: str | None, *, is_cancelled: bool) -> None:
        blocks: list[Any] = []
        for block in as_dicts(result.get("content")):
            text = block.get("Text")
            if isinstance(text, str):
                blocks.append({"type": "text", "text": text})
            else:
                blocks.append(block.get("Json", block))
        output: Any = blocks
        if len(blocks) == 1:
            only = blocks[0]
            is_text = isinstance(only, dict) and only.get("type") == "text"
            output = only["text"] if is_text else only
        facts: JsonObject = {}
        if result.get("status") == "Error":
            facts["is_error"] = True
        if is_cancelled:
            facts["rejected"] = True
        call_id = get_text(result, "tool_use_id")
        self._draft.add_tool_result(call_id, output, facts=facts or None, ts=ts)

    def _read_assistant(self, assistant: JsonObject, place: str) -> None:
        for kind, answer in assistant.items():
            if kind not in ("Response", "ToolUse") or not isinstance(answer, dict):
                detail = f"an answer {format_kind(kind)}"
                self._draft.note_omission("unknown-record", place, detail)
                continue
            text = get_text(answer, "content")
            if text:
                self._draft.add_message("assistant", text, self._model)
            for call in as_dicts(answer.get("tool_uses")):
                self._draft.add_tool_call(
                    get_text(call, "id"),
                    get_text(call, "name") or "tool",
                    parse_arguments(call.get("args")),
                    self._model,
                )


def _find_title(pairs: list[JsonObject]) -> str | None:
    for pair in pairs:
        prompt = get_text(get_dict(get_dict(get_dict(pair, "user"), "content"), "Prompt"), "prompt")
        if prompt:
            return make_title(prompt)
    return None


def _find_first_time(pairs: list[JsonObject]) -> str | None:
    for pair in pairs:
        ts = to_utc(get_text(get_dict(pair, "user"), "timestamp") or "")
        if ts:
            return ts
    return None


def _parse_row_time(value: Any) -> str | None:
    return from_epoch(value, _MILLISECONDS)
