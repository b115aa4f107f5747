"""Folds the events of an AG-UI run into items: each message, call and result whole, where it
began."""

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

_OLDER = {
    "THINKING_TEXT_MESSAGE_START": "REASONING_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT": "REASONING_MESSAGE_CONTENT",
    "THINKING_CONTENT": "REASONING_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END": "REASONING_MESSAGE_END",
}
_LEFT = {
    "RAW": ("raw-event", "a raw event of the framework"),
    "STATE_SNAPSHOT": ("state", "the state of the application"),
    "STATE_DELTA": ("state", "a change of the application's state"),
}
_SILENT = ("TOOL_CALL_END", "REASONING_START", "REASONING_END", "THINKING_END")


@dataclass(slots=True, eq=False)
class Item:
    """Something to tell: a piece of talk that may still grow, a fact beside it, a subagent that
    begins or ends."""

    place: str
    owner: str | None = None
    ts: str | None = None
    role: str = "assistant"
    name: str | None = None
    part: Part | None = None
    pieces: list[str] = field(default_factory=list)
    sealed: bool = False
    note: JsonObject | None = None
    begins: JsonObject | None = None
    ends: JsonObject | None = None
    snapshot: list["Item"] | None = None
    is_delta: bool = False
    usage: Any = None

    def whole(self) -> Part | None:
        """The piece of talk with everything that was streamed; None when there is nothing in it."""
        text = "".join(self.pieces)
        if isinstance(self.part, TextPart) and self.pieces:
            return TextPart(text)
        if isinstance(self.part, ReasoningPart) and (self.pieces or self.sealed):
            return ReasoningPart(text) if text else ReasoningPart(None) if self.sealed else None
        if isinstance(self.part, ToolCallPart) and self.pieces:
            return self.part._replace(arguments=parse_arguments(text))
        return None if self.part in (TextPart(""), ReasoningPart("")) else self.part


def time_of(value: Any) -> str | None:
    """A time: the protocol names no unit, so seconds and milliseconds are told apart by their
    size."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (
            from_epoch(value, 0.001) if value > 1e11 else from_epoch(value) if value > 1e8 else None
        )
    return to_utc(value)


class Fold:
    """The items of the run under way."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.items: list[Item] = []
        self._growing: dict[tuple[str, Any], Item] = {}
        self._latest: dict[tuple[str, str | None], Item] = {}

    def empty(self) -> list[Item]:
        """All items, which are told now."""
        items, self.items = self.items, []
        self._growing, self._latest = {}, {}
        return items

    def take(self, event: JsonObject, kind: str, place: str) -> bool:
        """Take an event; gives whether it ends the run."""
        kind = _OLDER.get(kind, kind)
        if "rawEvent" in event:
            self._draft.note_omission("raw-event", place, "the raw event beside an event")
        if event.get("metadata"):
            self._draft.note_omission("metadata", place, "metadata of an event")
        item = Item(place, as_text(event.get("subagentRunId")), time_of(event.get("timestamp")))
        if "_MESSAGE_" in kind and kind.startswith(("TEXT", "REASONING")):
            self._message(event, kind, item)
        elif kind in ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK"):
            self._call(event, kind, item)
        elif kind in _TAKEN:
            _TAKEN[kind](self, event, item)
        elif kind in _LEFT:
            code, detail = _LEFT[kind]
            self._draft.note_omission(code, place, detail)
        elif kind not in _SILENT:
            self._draft.note_omission("unknown-event", place, f"event {format_kind(kind)}")
        return kind in ("RUN_FINISHED", "RUN_ERROR")

    def _message(self, event: JsonObject, kind: str, item: Item) -> None:
        """A text, or reasoning: begun, gone on with, or both at once as a chunk."""
        family = "text" if kind.startswith("TEXT") else "reasoning"
        native = as_text(event.get("messageId"))
        known = (
            self._growing.get((family, native))
            if native
            else self._latest.get((family, item.owner))
        )
        if kind.endswith("_END"):
            self._latest.pop((family, item.owner), None)
            return
        if known is None or kind.endswith("_START"):
            item.part = TextPart("") if family == "text" else ReasoningPart("")
            item.role = (
                (as_text(event.get("role")) or "assistant") if family == "text" else "assistant"
            )
            item.name = as_text(event.get("name"))
            known = self._begin(family, native, item)
        if isinstance(delta := event.get("delta"), str):
            known.pieces.append(delta)

    def _call(self, event: JsonObject, kind: str, item: Item) -> None:
        native = as_text(event.get("toolCallId"))
        known = (
            self._growing.get(("call", native))
            if native
            else self._latest.get(("call", item.owner))
        )
        if known is None or kind == "TOOL_CALL_START":
            item.part = ToolCallPart(native, as_text(event.get("toolCallName")) or "tool", {})
            known = self._begin("call", native, item)
        if isinstance(delta := event.get("delta"), str) and delta:
            known.pieces.append(delta)

    def _begin(self, family: str, native: str | None, item: Item) -> Item:
        self.items.append(item)
        self._latest[family, item.owner] = item
        if native:
            self._growing[family, native] = item
        return item

    def result(self, event: JsonObject, item: Item) -> None:
        item.role = "tool"
        item.part = ToolResultPart(
            as_text(event.get("toolCallId")), unpack_output(event.get("content"))
        )
        self.items.append(item)
        if native := as_text(event.get("messageId")):
            self._growing["result", native] = item

    def title(self, event: JsonObject, item: Item) -> None:
        """What older backends call a phase of thinking."""
        if title := as_text(event.get("title")):
            item.part = ReasoningPart(title, summary=True)
            self.items.append(item)

    def sealed(self, event: JsonObject, item: Item) -> None:
        known = self._growing.get(("reasoning", as_text(event.get("entityId"))))
        if known is not None:
            known.sealed = True
            if known.pieces:
                self._draft.note_omission(
                    "sealed-reasoning", item.place, "encrypted reasoning beside its words"
                )
        elif event.get("subtype") == "tool-call":
            self._draft.note_omission(
                "sealed-reasoning", item.place, "encrypted reasoning of a call"
            )
        elif any(
            (family, as_text(event.get("entityId"))) in self._growing
            for family in ("text", "result")
        ):
            # Pydantic AI 2 keeps what it knows of a result, and of words, in such a value.
            self._draft.note_omission(
                "sealed-value", item.place, "an encrypted value beside a message"
            )
        else:
            item.part = ReasoningPart(None)
            self.items.append(item)

    def snapshot(self, event: JsonObject, item: Item) -> None:
        self.history(event.get("messages"), item)

    def history(self, messages: Any, item: Item) -> None:
        """All messages so far, as a snapshot shows them or as a run is given them."""
        item.snapshot = []
        for message in messages if isinstance(messages, list) else ():
            item.snapshot += self._pieces(message, item.place)
        self.items.append(item)

    def _pieces(self, message: Any, place: str) -> list[Item]:
        role = message.get("role") if isinstance(message, dict) else None
        made: Message | None
        if role == "reasoning":
            words = as_text(message.get("content"))
            sealed = bool(message.get("encryptedValue"))
            made = Message(
                "assistant",
                [ReasoningPart(words) if words else ReasoningPart(None if sealed else "")],
            )
        elif role == "activity":
            self._draft.note_omission("activity", place, "an activity in a list of messages")
            return []
        else:
            made = parse_message(message)
        if made is None:
            self._draft.note_omission("unknown-message", place, "a message without a role")
            return []
        for kind in made.unknown_kinds:
            self._draft.note_omission(
                "unknown-part", place, f"part {format_kind(kind)}, kept as it is"
            )
        owner = as_text(message.get("subagentRunId")) if isinstance(message, dict) else None
        empty = (TextPart(""), ReasoningPart(""))
        return [
            Item(place, owner, role=role, name=made.name, part=part)
            for role, part in split_message(made)
            if part not in empty
        ]

    def note(self, item: Item, data: JsonObject) -> None:
        """A fact beside the talk."""
        item.note = data
        self.items.append(item)

    def step(self, event: JsonObject, item: Item) -> None:
        status = "started" if event.get("type") == "STEP_STARTED" else "finished"
        self.note(item, {"kind": "step", "name": event.get("stepName"), "status": status})

    def custom(self, event: JsonObject, item: Item) -> None:
        self.note(item, {"kind": "custom", "name": event.get("name"), "value": event.get("value")})

    def activity(self, event: JsonObject, item: Item) -> None:
        data: JsonObject = {"kind": "activity", "activity_type": event.get("activityType")}
        if native := as_text(event.get("messageId")):
            data["message_id"] = native
        self.note(item, data | pick_fields(event, "content", "patch"))

    def run_started(self, event: JsonObject, item: Item) -> None:
        given = event.get("input")
        held: JsonObject = given if isinstance(given, dict) else {}
        data: JsonObject = {"kind": "run", "status": "started"}
        names = (("run_id", "runId"), ("thread_id", "threadId"), ("parent_run_id", "parentRunId"))
        data |= {name: event[key] for name, key in names if as_text(event.get(key))}
        self.note(item, data | pick_fields(held, "resume"))
        self.given(held, item.place)

    def given(self, held: JsonObject, place: str) -> None:
        """What a run was given: messages, tools, what the application says of its surroundings."""
        tools = held.get("tools")
        names = (
            [tool.get("name") for tool in tools if isinstance(tool, dict)]
            if isinstance(tools, list)
            else []
        )
        if names := [name for name in names if as_text(name)]:
            self.note(Item(place), {"kind": "tools", "names": names})
            note_tool_definitions(self._draft.note_omission, tools, place)
        if held.get("context"):
            self.note(Item(place), {"kind": "context", "context": held["context"]})
        if held.get("state") or held.get("forwardedProps"):
            self._draft.note_omission("state", place, "the state of the application")
        messages = held.get("messages")
        if isinstance(messages, list) and messages:
            roles = [message.get("role") for message in messages if isinstance(message, dict)]
            self.history(
                messages, Item(place, is_delta="assistant" not in roles and "tool" not in roles)
            )

    def run_finished(self, event: JsonObject, item: Item) -> None:
        data: JsonObject = {
            "kind": "run",
            "status": "finished",
            **pick_fields(event, "result", "outcome"),
        }
        if as_text(event.get("runId")):
            data["run_id"] = event["runId"]
        self.note(item, data)
        self._usage(event, item)

    def run_error(self, event: JsonObject, item: Item) -> None:
        self.note(item, {"kind": "error", **pick_fields(event, "message", "code")})
        self._usage(event, item)

    def _usage(self, event: JsonObject, item: Item) -> None:
        given = event.get("usage")
        for entry in given if isinstance(given, list) else ():
            if isinstance(entry, dict):
                data = {"kind": "usage", **pick_fields(entry, "provider", "model")}
                self.note(Item(item.place, ts=item.ts, usage=entry), data)

    def agent_started(self, event: JsonObject, item: Item) -> None:
        item.begins = event
        self.items.append(item)

    def agent_finished(self, event: JsonObject, item: Item) -> None:
        item.ends = pick_fields(event, "result", "outcome")
        self.items.append(item)

    def agent_error(self, event: JsonObject, item: Item) -> None:
        item.ends = {"error": get_first(event, "message") or "", **pick_fields(event, "code")}
        self.items.append(item)


_TAKEN: dict[str, Callable[[Fold, JsonObject, Item], None]] = {
    "TOOL_CALL_RESULT": Fold.result,
    "THINKING_START": Fold.title,
    "REASONING_ENCRYPTED_VALUE": Fold.sealed,
    "MESSAGES_SNAPSHOT": Fold.snapshot,
    "STEP_STARTED": Fold.step,
    "STEP_FINISHED": Fold.step,
    "CUSTOM": Fold.custom,
    "ACTIVITY_SNAPSHOT": Fold.activity,
    "ACTIVITY_DELTA": Fold.activity,
    "RUN_STARTED": Fold.run_started,
    "RUN_FINISHED": Fold.run_finished,
    "RUN_ERROR": Fold.run_error,
    "SUBAGENT_STARTED": Fold.agent_started,
    "SUBAGENT_FINISHED": Fold.agent_finished,
    "SUBAGENT_ERROR": Fold.agent_error,
}
