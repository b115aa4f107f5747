"""The Open-Token v0.1 document, and the record that readers hand to passes and writers.

Field names are those of the specification.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from open_token.model.omissions import Note

VERSION = "0.1"

EventType = Literal["message", "tool_use", "tool_result", "span_start", "span_end", "annotation"]
Visibility = Literal["public", "internal", "metadata"]
Role = Literal["system", "developer", "user", "assistant", "assistant_thought", "tool"]
Kind = Literal["human", "model", "tool", "system"]
Mime = Literal["text/plain", "application/json"]

EVENT_TYPES: tuple[EventType, ...] = (
    "message",
    "tool_use",
    "tool_result",
    "span_start",
    "span_end",
    "annotation",
)
VISIBILITIES: tuple[Visibility, ...] = ("public", "internal", "metadata")
ROLES: tuple[Role, ...] = ("system", "developer", "user", "assistant", "assistant_thought", "tool")
KINDS: tuple[Kind, ...] = ("human", "model", "tool", "system")
MIMES: tuple[Mime, ...] = ("text/plain", "application/json")
SOURCE_RUNTIMES = ("cli", "web", "api", "ide", "other")
PROVIDERS = ("openai", "anthropic", "google", "meta", "other")
AVAILABILITIES = ("available", "unavailable", "unknown")
REDACTION_MODES = ("none", "secrets", "pii", "strict")
STRATEGIES = ("mask", "drop", "hash")


class Content(TypedDict, total=False):
    mime: Mime
    text: str
    data: Any


class Links(TypedDict, total=False):
    parent_id: str
    replies_to: str
    call_id: str
    span_id: str


class Usage(TypedDict, total=False):
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


class Event(TypedDict, total=False):
    id: str
    seq: int
    ts: str
    type: EventType
    actor_id: str
    visibility: Visibility
    role: Role
    content: Content
    links: Links
    usage: Usage


class Participant(TypedDict):
    actor_id: str
    kind: Kind
    name: str
    provider: NotRequired[str]
    model: NotRequired[str]
    instance_id: NotRequired[str]


class Redaction(TypedDict, total=False):
    mode: str
    strategy: str
    notes: list[str]


class Conversation(TypedDict, total=False):
    id: str
    title: str
    started_at: str
    timezone: str
    source_runtime: str
    provider: str
    internal_availability: str
    redaction: Redaction


class Coercion(TypedDict):
    """A value that had to be changed: its position (a JSON pointer), and what it was."""

    seq: NotRequired[int]
    id: NotRequired[str]
    ptr: str
    was: str


class Integrity(TypedDict, total=False):
    hash_alg: str
    canonicalization: str
    events_hash: str
    profile: str
    c14n: str
    event_count: int
    document_hash: str
    tree: dict[str, Any]
    source: dict[str, Any]
    coercions: list[Coercion]
    signatures: list[dict[str, Any]]


class Export(TypedDict, total=False):
    open_token_version: str
    exported_at: str
    conversation: Conversation
    participants: list[Participant]
    events: list[Event]
    integrity: Integrity


class Found(msgspec.Struct, frozen=True):
    """One of several conversations in a source, as a list shows it."""

    id: str
    title: str | None = None
    started_at: str | None = None
    updated_at: str | None = None
    cwd: str | None = None
    messages: int | None = None


@dataclass
class Record:
    """A conversation in the pipeline: its metadata, and events that can be iterated repeatedly."""

    conversation: Conversation
    participants: list[Participant]
    events: Iterable[Event]
    notes: list[Note] = field(default_factory=list)
    coercions: list[Coercion] = field(default_factory=list)
    exported_at: str | None = None
    next_event_number: int = 1
    """The first free event number, for events that a pass inserts."""
    is_export: bool = False
    """The source was itself an Open-Token export."""
    reader: str = ""
    """The reader that parsed the source."""
    estimate_cost: Callable[[str, Usage], float | None] | None = None
    """Estimates what a response of a model cost, in dollars; None where the price is not known."""
    integrity: Integrity | None = None
    """The integrity object of such a source."""
    check: Callable[[list[Event], bytes], None] | None = None
    """Looks at events and at the bytes that are to be written of them; raises when something must
    not leave."""

    def bind_prices(self) -> Callable[[str, Any], float | None] | None:
        """Return an estimate of costs by the id of an actor, where the record brings prices."""
        estimate = self.estimate_cost
        if estimate is None:
            return None
        models = {actor["actor_id"]: actor.get("model", "") for actor in self.participants}
        return lambda actor_id, usage: estimate(models.get(actor_id, ""), usage)

    def with_events(self, events: Iterable[Event]) -> "Record":
        """Return a copy of the record with other events."""
        # dataclasses.replace is too slow here: it shows in the time of a small export.
        record = object.__new__(Record)
        record.__dict__.update(self.__dict__, events=events)
        return record
