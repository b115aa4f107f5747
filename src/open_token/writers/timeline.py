"""Events in reading order: each call with its result, each subagent inside the call it serves."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.jsontools.objects import get_data, get_link
from open_token.model.document import Event

MACHINE_NOTES = frozenset(
    (
        "cost",
        "context",
        "settings",
        "tools",
        "usage",
        "request_usage",
        "turn_context",
        "message_facts",
        "session_totals",
        "result_facts",
        "user_command",
        "other_title",
    )
)
"""Kinds of annotations that are for machines: pages hide them by default."""
_MAX_DEPTH = 12
_MAX_FACT_LENGTH = 300
_MESSAGE_KINDS = {"user": "prompt", "assistant": "say", "assistant_thought": "thought"}


@dataclass
class Item:
    """One entry of the timeline: a message, a call, a span or a note."""

    kind: str
    """prompt, command, say, thought, system, call, result, span or note."""
    event: Event
    result: Event | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about a result, or about a command that the person ran."""
    facts_id: str = ""
    children: list["Item"] = field(default_factory=list)
    span_event_ids: list[str] = field(default_factory=list)
    """Ids of the start and end events of a subagent, which are not items themselves."""
    about: dict[str, Any] = field(default_factory=dict)
    """The data of these events."""
    pending: int = 0
    """How many events it still waits for: its result, the end of its span."""
    depth: int = 0
    parent: "Item | None" = None
    is_emitted: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """`content.data` of its event, where that is an object."""
        return get_data(self.event)

    @property
    def is_machine_note(self) -> bool:
        """Whether it is an annotation for machines."""
        kind = self.data.get("kind")
        return self.kind == "note" and isinstance(kind, str) and kind in MACHINE_NOTES

    @property
    def is_closed(self) -> bool:
        """Whether it was emitted already, alone or inside another item."""
        item = self
        while item.parent is not None:
            item = item.parent
        return item.is_emitted


def classify_message(event: Event) -> str:
    """Return the kind of a message: prompt, say, thought, or system."""
    role = str(event.get("role"))
    if role == "user" and event.get("visibility") == "internal":
        return "system"  # the runtime wrote it in the name of the user
    return _MESSAGE_KINDS.get(role, "system")


@dataclass
class TimelineIndex:
    """What must be known of all events before the first item is emitted."""

    answered_calls: set[str] = field(default_factory=set)
    ended_spans: set[str] = field(default_factory=set)
    last_positions: dict[str, int] = field(default_factory=dict)
    """The position of the last event of each span: the end of a span without an end event."""
    count: int = 0
    result_ids: set[str] = field(default_factory=set)
    result_facts: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """By result id: the id of the annotation about it, and its small values."""
    commands: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Commands of the person that the model did not answer, by the id of the message: the id of the
    annotation about it, and its values."""

    def add(self, event: Event) -> None:
        """Index one more event."""
        self.count += 1
        kind = event.get("type")
        span_id = get_link(event, "span_id")
        if span_id:
            self.last_positions[span_id] = self.count
        if kind == "tool_result":
            self.answered_calls.add(get_link(event, "call_id"))
            self.result_ids.add(str(event.get("id", "")))
        elif kind == "span_end":
            self.ended_spans.add(span_id)
        elif kind == "annotation":
            self._add_annotation(event)

    def _add_annotation(self, event: Event) -> None:
        data = get_data(event)
        result_id = get_link(event, "parent_id")
        if data.get("kind") != "result_facts" or not result_id:
            return
        facts = {name: value for name, value in data.items() if name != "kind"}
        small_facts = select_small_facts(facts)
        # An annotation with larger values is also shown by itself: it has no id here.
        fits = len(small_facts) == len(facts)
        annotation_id = str(event.get("id", "")) if fits else ""
        self.result_facts[result_id] = annotation_id, small_facts


def select_small_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a result that fit into a line."""
    return {name: value for name, value in facts.items() if _is_small(value)}


def _is_small(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_FACT_LENGTH
    return isinstance(value, bool | int | float)


class Timeline:
    """Turns events into items; holds an item back until everything that belongs to it is there."""

    def __init__(self, index: TimelineIndex) -> None:
        self._index = index
        self._queue: deque[Item] = deque()
        self._count = 0
        self._calls: dict[str, Item] = {}
        self._spans: dict[str, Item] = {}

    def iter_items(self, events: Iterable[Event]) -> Iterator[Item]:
        """Yield the items of the main conversation; subagents are children of other items."""
        for event in events:
            self._add_event(event)
            self._release_span(get_link(event, "span_id"))
            while self._queue and not self._queue[0].pending:
                yield self._pop()
        while self._queue:
            yield self._pop()

    def _release_span(self, span_id: str) -> None:
        """End a span without an end event after its last event."""
        self._count += 1
        if span_id in self._index.ended_spans:
            return
        if self._index.last_positions.get(span_id) != self._count:
            return
        holder = self._spans.get(span_id)
        if holder is not None and holder.pending:
            holder.pending -= 1

    def _pop(self) -> Item:
        item = self._queue.popleft()
        item.is_emitted = True
        return item

    def _add_event(self, event: Event) -> None:
        kind = event.get("type")
        if kind == "tool_use":
            self._add_call(event)
        elif kind == "tool_result":
            self._add_result(event)
        elif kind == "span_start":
            self._open_span(event)
        elif kind == "span_end":
            self._close_span(event)
        elif kind == "annotation":
            self._add_note(event)
        else:
            self._add_message(event)

    def _add_message(self, event: Event) -> None:
        command = self._index.commands.get(str(event.get("id", "")))
        if command is None:
            self._add_item(Item(classify_message(event), event))
            return
        facts_id, facts = command
        self._add_item(Item("command", event, facts=facts, facts_id=facts_id))

    def _add_item(self, item: Item) -> None:
        """Add an item to the span it is part of, or else to the main conversation."""
        span = self._spans.get(get_link(item.event, "span_id"))
        if span is None or span.is_closed:
            self._queue.append(item)
            return
        span.children.append(item)
        item.depth = span.depth + 1
        item.parent = span

    def _add_call(self, event: Event) -> None:
        call_id = get_link(event, "call_id")
        item = Item("call", event)
        if call_id in self._index.answered_calls and call_id not in self._calls:
            item.pending = 1
            self._calls[call_id] = item
        self._add_item(item)

    def _add_result(self, event: Event) -> None:
        item = self._calls.pop(get_link(event, "call_id"), None)
        result_id = str(event.get("id", ""))
        facts_id, facts = self._index.result_facts.get(result_id, ("", {}))
        if item is None or item.is_closed:
            self._add_item(Item("result", event, result=event, facts=facts, facts_id=facts_id))
            return
        item.result = event
        item.facts = facts
        item.facts_id = facts_id
        item.pending -= 1

    def _open_span(self, event: Event) -> None:
        span_id = get_link(event, "span_id")
        item = self._calls.get(get_link(event, "call_id"))
        has_span = item is not None and (item.children or item.span_event_ids)
        if item is None or span_id in self._spans or item.is_closed or has_span:
            item = Item("span", event)
            self._add_item(item)
        else:
            item.span_event_ids.append(str(event.get("id", "")))
            item.about |= get_data(event)
        # A page cannot nest as deep as a document can: deeper spans go beside their parent.
        holder = item
        if item.depth >= _MAX_DEPTH and item.parent is not None:
            holder = item.parent
        if span_id:
            self._spans[span_id] = holder
            holder.pending += 1

    def _close_span(self, event: Event) -> None:
        item = self._spans.pop(get_link(event, "span_id"), None)
        if item is None or item.is_closed:
            self._add_item(Item("note", event))
            return
        item.span_event_ids.append(str(event.get("id", "")))
        item.about |= get_data(event)
        if item.pending > 0:
            item.pending -= 1

    def _add_note(self, event: Event) -> None:
        """Add an annotation, unless its values are shown with the event it is about."""
        parent_id = get_link(event, "parent_id")
        command = self._index.commands.get(parent_id)
        if command is not None and command[0] == event.get("id"):
            return
        facts = self._index.result_facts.get(parent_id)
        is_shown_with_result = (
            facts is not None
            and facts[0] == event.get("id")
            and parent_id in self._index.result_ids
        )
        if not is_shown_with_result:
            self._add_item(Item("note", event))
