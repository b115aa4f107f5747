"""The shapes in which LangChain writes a message down, and LangSmith a run, told apart by their
keys."""

from typing import Any

SURE = frozenset(
    ("human", "ai", "AIMessageChunk", "HumanMessageChunk", "SystemMessageChunk", "ToolMessageChunk")
)
KINDS = SURE | frozenset(("system", "tool", "function", "chat", "generic", "developer", "remove"))
_MARKS = frozenset(
    ("additional_kwargs", "response_metadata", "tool_call_id", "usage_metadata", "example")
)
_FOREIGN = frozenset(("role", "uuid", "sessionId", "parentUuid", "message", "ts", "timestamp"))


def is_message(value: Any, surely: bool = False) -> bool:
    """Whether a value is a message in one of three shapes; `surely` when nothing else looks like
    it."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "constructor":
        return class_of(value) is not None
    if not isinstance(kind, str) or kind not in KINDS:
        return False
    data = value.get("data")
    if isinstance(data, dict):
        return "content" in data
    if (
        "content" not in value
        or ("role" in value and kind != "chat")
        or not _FOREIGN.isdisjoint(value.keys() - {"role"})
    ):
        return False
    return not surely or kind in SURE or not _MARKS.isdisjoint(value)


def is_akin(value: Any) -> bool:
    """Whether a value could stand among messages: one, or of a kind that is not known."""
    if is_message(value):
        return True
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return value.get("lc") == 1 or (
        isinstance(value.get("data"), dict) and value.keys() <= {"type", "data"}
    )


def class_of(value: dict[str, Any]) -> str | None:
    """The class of a message that was written as a call of its constructor."""
    path = value.get("id")
    if (
        value.get("lc") != 1
        or not isinstance(path, list)
        or not path
        or not isinstance(value.get("kwargs"), dict)
    ):
        return None
    name = path[-1]
    return name if isinstance(name, str) and name.endswith(("Message", "MessageChunk")) else None


def messages_in(value: Any) -> list[Any] | None:
    """The messages of a state: of a graph, of a thread, of a prompt."""
    if not isinstance(value, dict):
        return None
    for holder in (value, value.get("values"), value.get("kwargs"), value.get("output")):
        if isinstance(holder, dict) and isinstance(found := holder.get("messages"), list) and found:
            return found
    return None


def is_state(value: dict[str, Any]) -> bool:
    """Whether a document holds a list of such messages, or is one itself."""
    found = messages_in(value)
    if found is None:
        return is_message(value, surely=True)
    return all(is_message(item) for item in found[:512]) and any(
        is_message(item, surely=True) for item in found[:512]
    )


def is_run(value: Any) -> bool:
    """Whether a value is a run of LangSmith."""
    if not isinstance(value, dict) or not isinstance(value.get("run_type", ""), str):
        return False
    if "run_type" in value:
        return any(
            name in value
            for name in ("dotted_order", "trace_id", "inputs", "parent_run_id", "start_time")
        )
    return "dotted_order" in value and "trace_id" in value


def is_payload(value: Any) -> bool:
    """Whether a value holds runs: as they are sent, begun and ended apart, or as a list."""
    if not isinstance(value, dict):
        return False
    held = [value.get(name) for name in ("post", "patch", "runs") if name in value]
    runs = [run for part in held if isinstance(part, list) for run in part[:64]]
    return any(is_run(run) for run in runs)
