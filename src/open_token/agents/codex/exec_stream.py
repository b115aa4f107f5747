"""What `codex exec --json` prints: items that start and complete, turn by turn, without times."""

from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content, parse_usage
from open_token.formats.shared.responses_items import ItemActors
from open_token.model.document import Event
from open_token.sources.source import Source

_SPOKEN = ("agent_message", "assistant_message", "reasoning")


def read(source: Source, draft: Draft) -> None:
    """Tell the stream; the person's prompt is not in it."""
    draft.conversation["source_runtime"] = "cli"
    # Reasoning is printed only where summaries are switched on.
    draft.without_thoughts = "unknown"
    stream = _Stream(draft)
    for number, record in source.records():
        stream.take(record if isinstance(record, dict) else {}, f"line {number}")


class _Stream:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.voices = ItemActors(draft)
        self.turn = 0
        self.open: set[str] = set()
        self.plan: Any = None
        self.spoken: str | None = None
        """The last event of this turn in which the model spoke."""

    def take(self, record: dict[str, Any], place: str) -> None:
        kind = record.get("type")
        if kind in ("item.started", "item.updated", "item.completed"):
            item = record.get("item")
            self._item(item if isinstance(item, dict) else {}, kind == "item.completed", place)
        elif kind == "thread.started":
            self._thread(as_text(record.get("thread_id")))
        elif kind == "turn.started":
            self.turn, self.open, self.plan, self.spoken = self.turn + 1, set(), None, None
        elif kind == "turn.completed":
            self._turn_completed(record)
        elif kind in ("turn.failed", "error"):
            error = record.get("error", record)
            message = error.get("message") if isinstance(error, dict) else error
            self.note("turn_failed" if kind == "turn.failed" else "error", message=message)
        elif kind == "request_user_input":
            self.note("request_user_input", **pick_fields(record, "questions"))
        elif isinstance(kind, str) and kind.endswith(".delta"):
            self.draft.note_omission("bookkeeping", place, f"event {format_kind(kind)}")
        else:
            self.draft.note_omission("unknown-record", place, f"event {format_kind(kind)}")

    def _thread(self, thread_id: str | None) -> None:
        known = self.draft.conversation.get("id")
        if thread_id and known is None:
            self.draft.conversation["id"] = thread_id
        elif thread_id and thread_id != known:
            self.note("lineage", id=thread_id)
        if known is None:
            self.note("context", program="codex exec --json")

    def _turn_completed(self, record: dict[str, Any]) -> None:
        spent = parse_usage(record.get("usage"))
        if spent and self.spoken:
            self.draft.set_usage(self.spoken, spent)
        elif spent:
            self.draft.add_annotation({"kind": "turn_usage"}, usage=spent)
        self.spoken = None

    def _item(self, item: dict[str, Any], is_done: bool, place: str) -> None:
        kind = item.get("type", item.get("item_type"))
        tell = _ITEMS.get(kind) if isinstance(kind, str) else None
        if tell is None:
            self.draft.note_omission("unknown-item", place, f"item {format_kind(kind)}")
        else:
            if is_done and kind in _SPOKEN and not isinstance(item.get("text"), str):
                self.draft.note_omission("no-content", place, f"item {kind} without text")
            tell(self, item, is_done)

    def note(self, kind: str, **data: Any) -> None:
        known = {name: value for name, value in data.items() if value is not None}
        self.draft.add_annotation({"kind": kind, **known})

    def said(self, event: Event) -> None:
        self.spoken = event["id"]

    def use(
        self, item: dict[str, Any], tool: str, arguments: Any, extra: dict[str, Any] | None = None
    ) -> str:
        """The call of an item, told when first seen. Ids begin anew in each turn, so the turn is
        part of the key."""
        native = as_text(item.get("id"))
        key = f"turn_{self.turn}/{native}" if native else None
        if key is None or key not in self.open:
            key = self.draft.add_tool_call(
                key, tool, arguments, self.voices.assistant, group=self.draft.count, extra=extra
            )
            self.spoken = f"evt_{self.draft.count:06d}"
            self.open.add(key)
        return key

    def result(self, key: str, output: Any, **facts: Any) -> None:
        if self.draft.is_call_open(key):
            self.draft.add_tool_result(
                key,
                output,
                facts={name: value for name, value in facts.items() if value is not None},
            )


def _agent_message(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    if is_done:
        stream.said(
            stream.draft.add_message(
                "assistant", as_text(item.get("text")) or "", stream.voices.assistant
            )
        )


def _reasoning(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    if is_done and (text := as_text(item.get("text"))):
        thought = stream.draft.add_reasoning(text, stream.voices.assistant, summary=True)
        stream.spoken = stream.spoken or thought["id"]


def _command(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    key = stream.use(item, "shell", pick_fields(item, "command"))
    if is_done:
        output = item.get("aggregated_output")
        stream.result(
            key,
            output if isinstance(output, str) else "",
            **pick_fields(item, "exit_code", "status"),
        )


def _file_change(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    key = stream.use(item, "apply_patch", pick_fields(item, "changes"))
    if is_done and "status" in item:
        stream.result(key, pick_fields(item, "status"))


def _mcp_call(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    given = item.get("arguments")
    arguments = {} if given is None else given
    key = stream.use(
        item, as_text(item.get("tool")) or "mcp", arguments, pick_fields(item, "server")
    )
    result, error = item.get("result"), item.get("error")
    if is_done and isinstance(result, dict):
        stream.result(key, parse_content(result.get("content")), **pick_fields(item, "status"))
    elif is_done and error is not None:
        message = error.get("message") if isinstance(error, dict) else error
        stream.result(key, parse_content(message), is_error=True, **pick_fields(item, "status"))


def _collab_call(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    arguments = pick_fields(item, "prompt", "receiver_thread_ids", "model")
    key = stream.use(item, as_text(item.get("tool")) or "collab", arguments)
    if is_done:
        stream.result(key, pick_fields(item, "agents_states"), **pick_fields(item, "status"))


def _web_search(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    if is_done:
        key = stream.use(item, "web_search", pick_fields(item, "query", "action"))
        if item.get("results") is not None:
            stream.result(key, item["results"])


def _todo_list(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    if item.get("items") != stream.plan:
        stream.plan = item.get("items")
        stream.note("todo_list", items=stream.plan)


def _plan(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    if is_done:
        stream.note("plan", text=item.get("text"))


def _error(stream: _Stream, item: dict[str, Any], is_done: bool) -> None:
    if is_done:
        stream.note("error", message=item.get("message"))


_ITEMS: dict[str, Callable[[_Stream, dict[str, Any], bool], None]] = {
    "agent_message": _agent_message,
    "assistant_message": _agent_message,
    "reasoning": _reasoning,
    "command_execution": _command,
    "file_change": _file_change,
    "mcp_tool_call": _mcp_call,
    "collab_tool_call": _collab_call,
    "web_search": _web_search,
    "todo_list": _todo_list,
    "plan": _plan,
    "error": _error,
}
