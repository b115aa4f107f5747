"""By what a Codex file is known: the shapes of its records, of every year."""

from typing import Any

ENVELOPED = frozenset(
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

_ITEMS = (
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


def is_stream(records: list[dict[str, Any]]) -> bool:
    """Whether the records are such a stream: a thread that starts, or items of its kinds."""
    for record in records:
        kind, item = record.get("type"), record.get("item")
        if kind == "thread.started":
            return isinstance(record.get("thread_id"), str)
        if kind in ("item.started", "item.updated", "item.completed"):
            return (
                isinstance(item, dict)
                and isinstance(item.get("id"), str)
                and item.get("type") in _ITEMS
            )
    return False


def is_bare_header(record: dict[str, Any]) -> bool:
    """The first line of 2025: who, when and under which instructions, without a type."""
    return (
        isinstance(record.get("id"), str)
        and isinstance(record.get("timestamp"), str)
        and "type" not in record
        and ("instructions" in record or "git" in record)
    )


def is_whole_session(record: dict[str, Any]) -> bool:
    """The one-document form of the first Codex CLI: a session and its items."""
    session = record.get("session")
    return (
        isinstance(session, dict)
        and isinstance(session.get("id"), str)
        and isinstance(record.get("items"), list)
    )
