"""Events in the order in which they are read: each call with its result, each subagent inside the
call it serves."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.model.document import Event

QUIET = frozenset(
    "cost context settings tools usage request_usage turn_context message_facts session_totals result_facts".split()
)
"""Notes for machines, which a reader of the story wants to see last."""
_DEEPEST = 12


@dataclass
class Item:
    """One thing on the page: what was said, a call, a span or a note."""

    kind: str
    """prompt, say, thought, system, call, result, span or note."""
    event: Event
    result: Event | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    facts_id: str = ""
    inside: list["Item"] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """The ids of events that have no row of their own: the start and the end of a subagent."""
    about: dict[str, Any] = field(default_factory=dict)
    """What these say."""
    waits: int = 0
    """For how many things it still waits: a result, the end of a span."""
    depth: int = 0
    within: "Item | None" = None
    is_told: bool = False
    """It was handed over, with all that is inside: what comes for it now needs a place of its
    own."""

    @property
    def data(self) -> dict[str, Any]:
        """The data of its event, where it is an object."""
        return data_of(self.event)

    @property
    def is_quiet(self) -> bool:
        """Whether it is a note for machines."""
        kind = self.data.get("kind")
        return self.kind == "note" and isinstance(kind, str) and kind in QUIET

    @property
    def is_gone(self) -> bool:
        """Whether it or what it stands in was told already."""
        item = self
        while item.within is not None:
            item = item.within
        return item.is_told


def data_of(event: Event) -> dict[str, Any]:
    """The data of an event; what a stranger's file may hold in its place is nothing."""
    content: Any = event.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    return data if isinstance(data, dict) else {}


def link_of(event: Event, name: str) -> str:
    """One of the links of an event, or nothing."""
    links: Any = event.get("links")
    value = links.get(name) if isinstance(links, dict) else None
    return value if isinstance(value, str) else ""


def speaker(event: Event) -> str:
    """Who speaks: a person (prompt), a model (say, thought), or the system, also where it takes the
    place of a user."""
    role = str(event.get("role"))
    if role == "user" and event.get("visibility") == "internal":
        return "system"
    return {"user": "prompt", "assistant": "say", "assistant_thought": "thought"}.get(
        role, "system"
    )


@dataclass
class Known:
    """What must be known of the whole before the first item is told."""

    answered: set[str] = field(default_factory=set)
    """Calls that have a result."""
    ended: set[str] = field(default_factory=set)
    """Spans that have an end."""
    lasts: dict[str, int] = field(default_factory=dict)
    """The place of the last event of each span: where one has no end, nothing of it comes after
    that."""
    count: int = 0
    results: set[str] = field(default_factory=set)
    """The ids of results."""
    facts: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """By the id of a result: the id of the note beside it, and what that says."""

    def take(self, event: Event) -> None:
        """One more event."""
        kind = event.get("type")
        self.count += 1
        if span := link_of(event, "span_id"):
            self.lasts[span] = self.count
        if kind == "tool_result":
            self.answered.add(link_of(event, "call_id"))
            self.results.add(str(event.get("id", "")))
        elif kind == "span_end":
            self.ended.add(link_of(event, "span_id"))
        elif kind == "annotation" and data_of(event).get("kind") == "result_facts":
            told = {key: value for key, value in data_of(event).items() if key != "kind"}
            small = {key: value for key, value in told.items() if _is_small(value)}
            if parent := link_of(event, "parent_id"):
                # What says more than fits beside the result keeps a note of its own.
                self.facts[parent] = (
                    str(event.get("id", "")) if len(small) == len(told) else "",
                    small,
                )


def _is_small(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 300)


class Story:
    """Takes events one by one; holds back an item until all that belongs to it has come."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._waiting: deque[Item] = deque()
        self._count = 0
        self._calls: dict[str, Item] = {}
        self._spans: dict[str, Item] = {}

    def tell(self, events: Iterable[Event]) -> Iterator[Item]:
        """The items of the conversation itself; those of subagents are inside others."""
        for event in events:
            self._take(event)
            self._let_go(link_of(event, "span_id"))
            while self._waiting and not self._waiting[0].waits:
                yield self._next()
        while self._waiting:
            yield self._next()

    def _let_go(self, span: str) -> None:
        """A span without an end is over with its last event."""
        self._count += 1
        if span not in self._known.ended and self._known.lasts.get(span) == self._count:
            holder = self._spans.get(span)
            if holder is not None and holder.waits:
                holder.waits -= 1

    def _next(self) -> Item:
        item = self._waiting.popleft()
        item.is_told = True
        return item

    def _take(self, event: Event) -> None:
        kind = event.get("type")
        if kind == "tool_use":
            self._call(event)
        elif kind == "tool_result":
            self._result(event)
        elif kind == "span_start":
            self._open(event)
        elif kind == "span_end":
            self._close(event)
        elif kind == "annotation":
            self._note(event)
        else:
            self._put(Item(speaker(event), event))

    def _put(self, item: Item) -> None:
        """Into the span it is part of, or else into the conversation itself."""
        span = self._spans.get(link_of(item.event, "span_id"))
        if span is not None and not span.is_gone:
            span.inside.append(item)
            item.depth, item.within = span.depth + 1, span
        else:
            self._waiting.append(item)

    def _call(self, event: Event) -> None:
        name = link_of(event, "call_id")
        item = Item(
            "call", event, waits=int(name in self._known.answered and name not in self._calls)
        )
        if item.waits:
            self._calls[name] = item
        self._put(item)

    def _result(self, event: Event) -> None:
        item = self._calls.pop(link_of(event, "call_id"), None)
        facts_id, facts = self._known.facts.get(str(event.get("id", "")), ("", {}))
        if item is None or item.is_gone:
            self._put(Item("result", event, result=event, facts=facts, facts_id=facts_id))
            return
        item.result, item.facts, item.facts_id = event, facts, facts_id
        item.waits -= 1

    def _open(self, event: Event) -> None:
        name = link_of(event, "span_id")
        item = self._calls.get(link_of(event, "call_id"))
        if name in self._spans or item is None or item.is_gone or item.inside or item.ends:
            item = Item("span", event)
            self._put(item)
        else:
            item.ends.append(str(event.get("id", "")))
            item.about |= data_of(event)
        # A file can nest as deep as it likes, a page cannot: what is deeper stands beside it.
        holder = item.within if item.depth >= _DEEPEST and item.within else item
        if name:
            self._spans[name] = holder
            holder.waits += 1

    def _close(self, event: Event) -> None:
        item = self._spans.pop(link_of(event, "span_id"), None)
        if item is None or item.is_gone:
            self._put(Item("note", event))
            return
        item.ends.append(str(event.get("id", "")))
        item.about |= data_of(event)
        item.waits -= item.waits > 0

    def _note(self, event: Event) -> None:
        parent = self._known.facts.get(link_of(event, "parent_id"))
        is_beside = link_of(event, "parent_id") in self._known.results
        if parent is None or parent[0] != event.get("id") or not is_beside:
            self._put(Item("note", event))
