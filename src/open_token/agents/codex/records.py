"""The lines of a Codex rollout in one form, whichever version wrote them."""

from collections.abc import Iterator
from typing import Any

from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

ENVELOPE_TYPES = frozenset(
    (
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "compacted",
        "world_state",
        "inter_agent_communication",
    )
)

_EXEC_ITEM_TYPES = (
    "agent_message",
    "assistant_message",
    "collab_tool_call",
    "command_execution",
    "error",
    "file_change",
    "mcp_tool_call",
    "plan",
    "reasoning",
    "todo_list",
    "web_search",
)


class Line:
    """One record of a rollout, with the results of matching duplicates."""

    label = "line"
    """The word before its number in notes."""
    is_duplicate = False
    """Whether the event repeats what other lines hold."""
    is_shown = False
    """Whether an event repeats this item."""
    is_injected = False
    """Whether it is a user message that no person typed."""
    is_summary = False
    """Whether it is an answer of the model that only serves as summary of a compaction."""
    is_pending = False
    """Whether a later line may still match it."""
    counterpart: "Line | None" = None
    """The line with the same content: the event of an item, or the item of an event."""
    texts: list[str] | None = None
    """The texts of an event that no other line holds."""

    def __init__(
        self, number: int, kind: str, payload: dict[str, Any], timestamp: Any, record: Any
    ) -> None:
        self.number = number
        self.kind = kind
        self.payload = payload
        self.ts = to_utc(timestamp)
        self.record = record

    @property
    def position(self) -> str:
        """Where it is, for notes."""
        return f"{self.label} {self.number}"


def read_lines(source: Source) -> Iterator[Line]:
    """Yield every record of a rollout as a line."""
    for number, record in source.records():
        if not isinstance(record, dict):
            yield Line(number, "", {}, None, record)
            continue
        payload = record.get("payload")
        kind = record.get("type")
        if isinstance(payload, dict) and isinstance(kind, str):
            yield Line(number, kind, payload, record.get("timestamp"), record)
        else:
            yield from _read_bare_lines(number, record)


def _read_bare_lines(number: int, record: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of a record without an envelope, as written until September 2025."""
    if is_session_document(record):
        session = record["session"]
        yield Line(number, "session_meta", session, session.get("timestamp"), session)
        for item in record["items"]:
            payload = item if isinstance(item, dict) else {}
            yield Line(number, "response_item", payload, None, item)
    elif isinstance(record.get("type"), str):
        yield Line(number, "response_item", record, record.get("timestamp"), record)
    elif is_bare_header(record):
        yield Line(number, "session_meta", record, record.get("timestamp"), record)
    else:
        kind = "state" if "record_type" in record else ""
        yield Line(number, kind, record, None, record)


def is_exec_stream(records: list[dict[str, Any]]) -> bool:
    """Return whether the records are the output of `codex exec --json`."""
    for record in records:
        kind = record.get("type")
        if kind == "thread.started":
            return isinstance(record.get("thread_id"), str)
        if kind in ("item.started", "item.updated", "item.completed"):
            item = record.get("item")
            return (
                isinstance(item, dict)
                and isinstance(item.get("id"), str)
                and item.get("type") in _EXEC_ITEM_TYPES
            )
    return False


def is_bare_header(record: dict[str, Any]) -> bool:
    """Return whether it is the first line of a rollout of early 2025: a header without a type."""
    return (
        isinstance(record.get("id"), str)
        and isinstance(record.get("timestamp"), str)
        and "type" not in record
        and ("instructions" in record or "git" in record)
    )


def is_session_document(record: dict[str, Any]) -> bool:
    """Return whether it is a session of the first Codex CLI: one document with all items."""
    session = record.get("session")
    return (
        isinstance(session, dict)
        and isinstance(session.get("id"), str)
        and isinstance(record.get("items"), list)
    )
