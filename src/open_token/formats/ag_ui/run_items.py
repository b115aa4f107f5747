"""Items of a run: every message, call and result joined from its events, at its first position."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_first,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_dicts import parse_message
from open_token.formats.shared.messages import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    unpack_output,
)
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.repeated_history import split_message
from open_token.jsontools.timestamps import from_epoch, to_utc

# The names of these events before protocol 1.0.
_RENAMED_EVENTS = {
    "THINKING_TEXT_MESSAGE_START": "REASONING_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT": "REASONING_MESSAGE_CONTENT",
    "THINKING_CONTENT": "REASONING_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END": "REASONING_MESSAGE_END",
}
_OMITTED_EVENTS = {
    "RAW": ("raw-event", "a raw event of the framework"),
    "STATE_SNAPSHOT": ("state", "the state of the application"),
    "STATE_DELTA": ("state", "a change of the application's state"),
}
_CALL_EVENTS = ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK")
_MARKER_EVENTS = ("TOOL_CALL_END", "REASONING_START", "REASONING_END", "THINKING_END")
_EMPTY_PARTS = (TextPart(""), ReasoningPart(""))
_RUN_IDS = {"run_id": "runId", "thread_id": "threadId", "parent_run_id": "parentRunId"}


@dataclass(slots=True, eq=False)
class Item:
    """An item of a run: a part of a message, an annotation, a snapshot, or a subagent's start or end."""

    place: str
    subagent: str | None = None
    ts: str | None = None
    role: str = "assistant"
    name: str | None = None
    part: Part | None = None
    deltas: list[str] = field(default_factory=list)
    is_encrypted: bool = False
    annotation: JsonObject | None = None
    subagent_start: JsonObject | None = None
    subagent_end: JsonObject | None = None
    snapshot: list["Item"] | None = None
    is_incremental: bool = False
    """Whether the snapshot holds only messages that are new."""
    usage: Any = None

    def join_deltas(self) -> Part | None:
        """Return the part with everything that was streamed; None when it is empty."""
        text = "".join(self.deltas)
        part = self.part
        if isinstance(part, TextPart) and self.deltas:
            return TextPart(text)
        if isinstance(part, ToolCallPart) and self.deltas:
            return part._replace(arguments=parse_arguments(text))
        if isinstance(part, ReasoningPart):
            if text:
                return ReasoningPart(text)
            if self.is_encrypted:
                return ReasoningPart(None)
            if self.deltas:
                return None
        return None if part in _EMPTY_PARTS else part


def parse_time(value: Any) -> str | None:
    """Return a time; the protocol names no unit, so its size tells seconds from milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return to_utc(value)
    if value > 1e11:
        return from_epoch(value, 0.001)
    return from_epoch(value) if value > 1e8 else None


class RunBuilder:
    """Collects the items of the current run."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._items: list[Item] = []
        self._by_id: dict[tuple[str, Any], Item] = {}
        self._latest: dict[tuple[str, str | None], Item] = {}
        """By family and subagent: events without an id continue the latest item."""

    def take_items(self) -> list[Item]:
        """Return all items and start the next run."""
        items = self._items
        self._items = []
        self._by_id = {}
        self._latest = {}
        return items

    def add_event(self, event: JsonObject, kind: str, place: str) -> bool:
        """Add an event; return whether it ends the run."""
        kind = _RENAMED_EVENTS.get(kind, kind)
        if "rawEvent" in event:
            self._draft.note_omission("raw-event", place, "the raw event attached to an event")
        if event.get("metadata"):
            self._draft.note_omission("metadata", place, "metadata of an event")
        item = Item(place, as_text(event.get("subagentRunId")), parse_time(event.get("timestamp")))
        if "_MESSAGE_" in kind and kind.startswith(("TEXT", "REASONING")):
            self._add_message_event(event, kind, item)
        elif kind in _CALL_EVENTS:
            self._add_call_event(event, kind, item)
        elif kind in _HANDLERS:
            _HANDLERS[kind](self, event, item)
        elif kind in _OMITTED_EVENTS:
            code, detail = _OMITTED_EVENTS[kind]
            self._draft.note_omission(code, place, detail)
        elif kind not in _MARKER_EVENTS:
            self._draft.note_omission("unknown-event", place, f"event {format_kind(kind)}")
        return kind in ("RUN_FINISHED", "RUN_ERROR")

    def add_input(self, given: JsonObject, place: str) -> None:
        """Add the input of a run: messages, tools and context."""
        tools = given.get("tools")
        names: list[str] = []
        for tool in tools if isinstance(tools, list) else ():
            name = as_text(tool.get("name")) if isinstance(tool, dict) else None
            if name:
                names.append(name)
        if names:
            self._annotate(Item(place), {"kind": "tools", "names": names})
            note_tool_definitions(self._draft.note_omission, tools, place)
        if given.get("context"):
            self._annotate(Item(place), {"kind": "context", "context": given["context"]})
        if given.get("state") or given.get("forwardedProps"):
            self._draft.note_omission("state", place, "the state of the application")
        messages = given.get("messages")
        if isinstance(messages, list) and messages:
            # Clients send the whole history, or only what the user added.
            roles = [message.get("role") for message in messages if isinstance(message, dict)]
            is_incremental = "assistant" not in roles and "tool" not in roles
            self._add_history(messages, Item(place, is_incremental=is_incremental))

    def _add_message_event(self, event: JsonObject, kind: str, item: Item) -> None:
        """Add an event of a text or of reasoning: a start, a delta, or both in one (a chunk)."""
        family = "text" if kind.startswith("TEXT") else "reasoning"
        if kind.endswith("_END"):
            self._latest.pop((family, item.subagent), None)
            return
        native_id = as_text(event.get("messageId"))
        target = self._find_item(family, native_id, item)
        if target is None or kind.endswith("_START"):
            item.name = as_text(event.get("name"))
            if family == "text":
                item.part = TextPart("")
                item.role = as_text(event.get("role")) or "assistant"
            else:
                item.part = ReasoningPart("")
            target = self._start_item(family, native_id, item)
        delta = event.get("delta")
        if isinstance(delta, str):
            target.deltas.append(delta)

    def _add_call_event(self, event: JsonObject, kind: str, item: Item) -> None:
        native_id = as_text(event.get("toolCallId"))
        target = self._find_item("call", native_id, item)
        # LangGraph starts a call again, with its arguments, when the tool runs.
        is_repeated = target is not None and not target.deltas
        if target is None or (kind == "TOOL_CALL_START" and not is_repeated):
            item.part = ToolCallPart(native_id, as_text(event.get("toolCallName")) or "tool", {})
            target = self._start_item("call", native_id, item)
        delta = event.get("delta")
        if isinstance(delta, str) and delta:
            target.deltas.append(delta)

    def _find_item(self, family: str, native_id: str | None, item: Item) -> Item | None:
        if native_id:
            return self._by_id.get((family, native_id))
        return self._latest.get((family, item.subagent))

    def _start_item(self, family: str, native_id: str | None, item: Item) -> Item:
        self._items.append(item)
        self._latest[family, item.subagent] = item
        if native_id:
            self._by_id[family, native_id] = item
        return item

    def _add_result(self, event: JsonObject, item: Item) -> None:
        item.role = "tool"
        item.part = ToolResultPart(
            as_text(event.get("toolCallId")), unpack_output(event.get("content"))
        )
        self._items.append(item)
        native_id = as_text(event.get("messageId"))
        if native_id:
            self._by_id["result", native_id] = item

    def _add_thinking_title(self, event: JsonObject, item: Item) -> None:
        """Before 1.0, a phase of thinking could have a title."""
        title = as_text(event.get("title"))
        if title:
            item.part = ReasoningPart(title, summary=True)
            self._items.append(item)

    def _add_encrypted_value(self, event: JsonObject, item: Item) -> None:
        native_id = as_text(event.get("entityId"))
        reasoning = self._by_id.get(("reasoning", native_id))
        if reasoning is not None:
            reasoning.is_encrypted = True
            if reasoning.deltas:
                self._draft.note_omission(
                    "sealed-reasoning", item.place, "encrypted reasoning in addition to its text"
                )
        elif event.get("subtype") == "tool-call":
            self._draft.note_omission(
                "sealed-reasoning", item.place, "encrypted reasoning of a call"
            )
        elif ("text", native_id) in self._by_id or ("result", native_id) in self._by_id:
            # Pydantic AI 2 stores its own data about a text or a result in such a value.
            self._draft.note_omission("sealed-value", item.place, "an encrypted value of a message")
        else:
            item.part = ReasoningPart(None)
            self._items.append(item)

    def _add_snapshot(self, event: JsonObject, item: Item) -> None:
        self._add_history(event.get("messages"), item)

    def _add_history(self, messages: Any, item: Item) -> None:
        item.snapshot = []
        for message in messages if isinstance(messages, list) else ():
            item.snapshot += self._read_message(message, item.place)
        self._items.append(item)

    def _read_message(self, body: Any, place: str) -> list[Item]:
        """Return the items of a message of a history."""
        role = body.get("role") if isinstance(body, dict) else None
        message: Message | None
        if role == "activity":
            self._draft.note_omission("activity", place, "an activity in a list of messages")
            return []
        if role == "reasoning":
            text = as_text(body.get("content"))
            if text is None and not body.get("encryptedValue"):
                text = ""
            message = Message("assistant", [ReasoningPart(text)])
        else:
            message = parse_message(body)
        if message is None:
            self._draft.note_omission("unknown-message", place, "a message without a role")
            return []
        for kind in message.unknown_kinds:
            self._draft.note_omission(
                "unknown-part", place, f"part {format_kind(kind)}, preserved verbatim"
            )
        subagent = as_text(body.get("subagentRunId")) if isinstance(body, dict) else None
        return [
            Item(place, subagent, role=part_role, name=message.name, part=part)
            for part_role, part in split_message(message)
            if part not in _EMPTY_PARTS
        ]

    def _annotate(self, item: Item, data: JsonObject) -> None:
        item.annotation = data
        self._items.append(item)

    def _add_step(self, event: JsonObject, item: Item) -> None:
        status = "started" if event.get("type") == "STEP_STARTED" else "finished"
        self._annotate(item, {"kind": "step", "name": event.get("stepName"), "status": status})

    def _add_custom(self, event: JsonObject, item: Item) -> None:
        data = {"kind": "custom", "name": event.get("name"), "value": event.get("value")}
        self._annotate(item, data)

    def _add_activity(self, event: JsonObject, item: Item) -> None:
        data: JsonObject = {"kind": "activity", "activity_type": event.get("activityType")}
        native_id = as_text(event.get("messageId"))
        if native_id:
            data["message_id"] = native_id
        self._annotate(item, data | pick_fields(event, "content", "patch"))

    def _start_run(self, event: JsonObject, item: Item) -> None:
        given = event.get("input")
        if not isinstance(given, dict):
            given = {}
        data: JsonObject = {"kind": "run", "status": "started"}
        for name, field_name in _RUN_IDS.items():
            if as_text(event.get(field_name)):
                data[name] = event[field_name]
        self._annotate(item, data | pick_fields(given, "resume"))
        self.add_input(given, item.place)

    def _finish_run(self, event: JsonObject, item: Item) -> None:
        data: JsonObject = {
            "kind": "run",
            "status": "finished",
            **pick_fields(event, "result", "outcome"),
        }
        if as_text(event.get("runId")):
            data["run_id"] = event["runId"]
        self._annotate(item, data)
        self._add_usage(event, item)

    def _fail_run(self, event: JsonObject, item: Item) -> None:
        self._annotate(item, {"kind": "error", **pick_fields(event, "message", "code")})
        self._add_usage(event, item)

    def _add_usage(self, event: JsonObject, item: Item) -> None:
        usage = event.get("usage")
        for entry in usage if isinstance(usage, list) else ():
            if isinstance(entry, dict):
                data = {"kind": "usage", **pick_fields(entry, "provider", "model")}
                self._annotate(Item(item.place, ts=item.ts, usage=entry), data)

    def _start_subagent(self, event: JsonObject, item: Item) -> None:
        item.subagent_start = event
        self._items.append(item)

    def _finish_subagent(self, event: JsonObject, item: Item) -> None:
        item.subagent_end = pick_fields(event, "result", "outcome")
        self._items.append(item)

    def _fail_subagent(self, event: JsonObject, item: Item) -> None:
        item.subagent_end = {
            "error": get_first(event, "message") or "",
            **pick_fields(event, "code"),
        }
        self._items.append(item)


_HANDLERS: dict[str, Callable[[RunBuilder, JsonObject, Item], None]] = {
    "TOOL_CALL_RESULT": RunBuilder._add_result,
    "THINKING_START": RunBuilder._add_thinking_title,
    "REASONING_ENCRYPTED_VALUE": RunBuilder._add_encrypted_value,
    "MESSAGES_SNAPSHOT": RunBuilder._add_snapshot,
    "STEP_STARTED": RunBuilder._add_step,
    "STEP_FINISHED": RunBuilder._add_step,
    "CUSTOM": RunBuilder._add_custom,
    "ACTIVITY_SNAPSHOT": RunBuilder._add_activity,
    "ACTIVITY_DELTA": RunBuilder._add_activity,
    "RUN_STARTED": RunBuilder._start_run,
    "RUN_FINISHED": RunBuilder._finish_run,
    "RUN_ERROR": RunBuilder._fail_run,
    "SUBAGENT_STARTED": RunBuilder._start_subagent,
    "SUBAGENT_FINISHED": RunBuilder._finish_subagent,
    "SUBAGENT_ERROR": RunBuilder._fail_subagent,
}
