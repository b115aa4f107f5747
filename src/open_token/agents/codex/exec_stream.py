"""Read the output of `codex exec --json`: items that start and complete, turn by turn.

It has no timestamps, and the prompt is not in it.
"""

from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content, parse_usage
from open_token.formats.shared.responses_items import ItemActors
from open_token.sources.source import Source

_TEXT_ITEMS = ("agent_message", "assistant_message", "reasoning")
_ITEM_EVENTS = ("item.started", "item.updated", "item.completed")
Item = dict[str, Any]


def read_stream(source: Source, draft: Draft) -> None:
    """Read the stream into the draft."""
    draft.conversation["source_runtime"] = "cli"
    # Reasoning is printed only if summaries are switched on.
    draft.without_thoughts = "unknown"
    reader = StreamReader(draft)
    for number, record in source.records():
        reader.read_record(record if isinstance(record, dict) else {}, f"line {number}")


class StreamReader:
    """Adds the events of the stream to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._actors = ItemActors(draft)
        self._turn = 0
        self._calls: set[str] = set()
        """The keys of the calls of this turn."""
        self._plan: Any = None
        self._last_output: str | None = None
        """The id of the last event of the model in this turn."""

    def read_record(self, record: dict[str, Any], position: str) -> None:
        """Read one event of the stream."""
        kind = record.get("type")
        if kind in _ITEM_EVENTS:
            item = record.get("item")
            self._read_item(
                item if isinstance(item, dict) else {}, kind == "item.completed", position
            )
        elif kind == "thread.started":
            self._start_thread(as_text(record.get("thread_id")))
        elif kind == "turn.started":
            self._start_turn()
        elif kind == "turn.completed":
            self._complete_turn(record)
        elif kind in ("turn.failed", "error"):
            error = record.get("error", record)
            message = error.get("message") if isinstance(error, dict) else error
            self._annotate("turn_failed" if kind == "turn.failed" else "error", message=message)
        elif kind == "request_user_input":
            self._annotate("request_user_input", **pick_fields(record, "questions"))
        # The completed item holds the whole text.
        elif isinstance(kind, str) and kind.endswith(".delta"):
            self._draft.note_omission("bookkeeping", position, f"event {format_kind(kind)}")
        else:
            self._draft.note_omission("unknown-record", position, f"event {format_kind(kind)}")

    def _start_thread(self, thread_id: str | None) -> None:
        known_id = self._draft.conversation.get("id")
        if thread_id and known_id is None:
            self._draft.conversation["id"] = thread_id
        elif thread_id and thread_id != known_id:
            self._annotate("lineage", id=thread_id)
        if known_id is None:
            self._annotate("context", program="codex exec --json")

    def _start_turn(self) -> None:
        self._turn += 1
        self._calls = set()
        self._plan = None
        self._last_output = None

    def _complete_turn(self, record: dict[str, Any]) -> None:
        turn_usage = parse_usage(record.get("usage"))
        if turn_usage and self._last_output:
            self._draft.set_usage(self._last_output, turn_usage)
        elif turn_usage:
            self._draft.add_annotation({"kind": "turn_usage"}, usage=turn_usage)
        self._last_output = None

    def _annotate(self, kind: str, **data: Any) -> None:
        known = drop_nulls(data)
        self._draft.add_annotation({"kind": kind, **known})

    def _read_item(self, item: Item, is_completed: bool, position: str) -> None:
        # Older versions call the type of an item `item_type`.
        kind = item.get("type", item.get("item_type"))
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is None:
            self._draft.note_omission("unknown-item", position, f"item {format_kind(kind)}")
            return
        if is_completed and kind in _TEXT_ITEMS and not isinstance(item.get("text"), str):
            self._draft.note_omission("no-content", position, f"item {kind} without text")
        handler(self, item, is_completed)

    def _add_call(
        self, item: Item, tool: str, arguments: Any, extra: dict[str, Any] | None = None
    ) -> str:
        """Add the call of an item when it is first seen, and return its key.

        Ids start again in each turn, so the turn is part of the key.
        """
        item_id = as_text(item.get("id"))
        key = f"turn_{self._turn}/{item_id}" if item_id else None
        if key is not None and key in self._calls:
            return key
        key = self._draft.add_tool_call(
            key, tool, arguments, self._actors.assistant, group=self._draft.count, extra=extra
        )
        self._last_output = f"evt_{self._draft.count:06d}"
        self._calls.add(key)
        return key

    def _add_result(self, key: str, output: Any, **facts: Any) -> None:
        if self._draft.is_call_open(key):
            known = drop_nulls(facts)
            self._draft.add_tool_result(key, output, facts=known)

    def _read_message(self, item: Item, is_completed: bool) -> None:
        if is_completed:
            text = as_text(item.get("text")) or ""
            message = self._draft.add_message("assistant", text, self._actors.assistant)
            self._last_output = message["id"]

    def _read_reasoning(self, item: Item, is_completed: bool) -> None:
        text = as_text(item.get("text"))
        if is_completed and text:
            reasoning = self._draft.add_reasoning(text, self._actors.assistant, summary=True)
            self._last_output = self._last_output or reasoning["id"]

    def _read_command(self, item: Item, is_completed: bool) -> None:
        key = self._add_call(item, "shell", pick_fields(item, "command"))
        if is_completed:
            output = item.get("aggregated_output")
            if not isinstance(output, str):
                output = ""
            self._add_result(key, output, **pick_fields(item, "exit_code", "status"))

    def _read_file_change(self, item: Item, is_completed: bool) -> None:
        key = self._add_call(item, "apply_patch", pick_fields(item, "changes"))
        if is_completed and "status" in item:
            self._add_result(key, pick_fields(item, "status"))

    def _read_mcp_call(self, item: Item, is_completed: bool) -> None:
        given = item.get("arguments")
        tool = as_text(item.get("tool")) or "mcp"
        key = self._add_call(
            item, tool, {} if given is None else given, pick_fields(item, "server")
        )
        if not is_completed:
            return
        result = item.get("result")
        error = item.get("error")
        if isinstance(result, dict):
            self._add_result(
                key, parse_content(result.get("content")), **pick_fields(item, "status")
            )
        elif error is not None:
            message = error.get("message") if isinstance(error, dict) else error
            self._add_result(
                key, parse_content(message), is_error=True, **pick_fields(item, "status")
            )

    def _read_collab_call(self, item: Item, is_completed: bool) -> None:
        given = pick_fields(item, "prompt", "receiver_thread_ids", "model")
        key = self._add_call(item, as_text(item.get("tool")) or "collab", given)
        if is_completed:
            self._add_result(key, pick_fields(item, "agents_states"), **pick_fields(item, "status"))

    def _read_web_search(self, item: Item, is_completed: bool) -> None:
        if is_completed:
            key = self._add_call(item, "web_search", pick_fields(item, "query", "action"))
            if item.get("results") is not None:
                self._add_result(key, item["results"])

    def _read_todo_list(self, item: Item, is_completed: bool) -> None:
        if item.get("items") != self._plan:
            self._plan = item.get("items")
            self._annotate("todo_list", items=self._plan)

    def _read_plan(self, item: Item, is_completed: bool) -> None:
        if is_completed:
            self._annotate("plan", text=item.get("text"))

    def _read_error(self, item: Item, is_completed: bool) -> None:
        if is_completed:
            self._annotate("error", message=item.get("message"))


_HANDLERS: dict[str, Callable[[StreamReader, Item, bool], None]] = {
    "agent_message": StreamReader._read_message,
    "assistant_message": StreamReader._read_message,
    "reasoning": StreamReader._read_reasoning,
    "command_execution": StreamReader._read_command,
    "file_change": StreamReader._read_file_change,
    "mcp_tool_call": StreamReader._read_mcp_call,
    "collab_tool_call": StreamReader._read_collab_call,
    "web_search": StreamReader._read_web_search,
    "todo_list": StreamReader._read_todo_list,
    "plan": StreamReader._read_plan,
    "error": StreamReader._read_error,
}
