"""Detection of LangChain messages and LangSmith runs by the keys of their objects."""

from typing import Any

from open_token.sources.source import Source

_DISTINCTIVE_TYPES = frozenset(
    ("human", "ai", "AIMessageChunk", "HumanMessageChunk", "SystemMessageChunk", "ToolMessageChunk")
)
_TYPES = _DISTINCTIVE_TYPES | frozenset(
    ("system", "tool", "function", "chat", "generic", "developer", "remove")
)
_DISTINCTIVE_FIELDS = frozenset(
    ("additional_kwargs", "response_metadata", "tool_call_id", "usage_metadata", "example")
)
_FOREIGN_FIELDS = frozenset(("uuid", "sessionId", "parentUuid", "message", "ts", "timestamp"))
_RUN_FIELDS = ("dotted_order", "trace_id", "inputs", "parent_run_id", "start_time")
_SAMPLE_SIZE = 512


def sniff(source: Source) -> bool:
    """Return whether the source holds LangChain messages or LangSmith runs."""
    records = get_first_records(source)
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    if all(is_run(record) or is_payload(record) for record in records):
        return True
    if len(records) == 1 and _is_state(records[0]):
        return True
    if not all(_is_message_like(record) for record in records):
        return False
    return any(is_message(record, surely=True) for record in records)


def get_first_records(source: Source) -> list[Any]:
    """Return the first records; a document may be a list, also within another list."""
    sample = source.sample
    if source.shape == "document" and sample and isinstance(sample[0], list):
        sample = sample[0][:_SAMPLE_SIZE]
        if len(sample) == 1 and isinstance(sample[0], list):
            sample = sample[0][:_SAMPLE_SIZE]
    return sample


def is_message(value: Any, surely: bool = False) -> bool:
    """Return whether a value is a message in one of the three shapes.

    The shapes are `dumpd` (a call of the constructor), `message_to_dict` (type and data) and
    `model_dump` (flat). With `surely`, nothing else looks like it.
    """
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "constructor":
        return get_class(value) is not None
    if not isinstance(kind, str) or kind not in _TYPES:
        return False
    data = value.get("data")
    if isinstance(data, dict):
        return "content" in data
    if "content" not in value or not _FOREIGN_FIELDS.isdisjoint(value):
        return False
    if "role" in value and kind != "chat":
        return False
    if not surely or kind in _DISTINCTIVE_TYPES:
        return True
    return not _DISTINCTIVE_FIELDS.isdisjoint(value)


def _is_message_like(value: Any) -> bool:
    """Return whether a value is a message, possibly of an unknown type."""
    if is_message(value):
        return True
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    if value.get("lc") == 1:
        return True
    return isinstance(value.get("data"), dict) and value.keys() <= {"type", "data"}


def get_class(value: dict[str, Any]) -> str | None:
    """Return the class of a message that was written as a call of its constructor."""
    path = value.get("id")
    if value.get("lc") != 1 or not isinstance(value.get("kwargs"), dict):
        return None
    if not isinstance(path, list) or not path:
        return None
    name = path[-1]
    if isinstance(name, str) and name.endswith(("Message", "MessageChunk")):
        return name
    return None


def find_messages(value: Any) -> list[Any] | None:
    """Return the messages of a state: of a graph, of a thread, or of a prompt."""
    if not isinstance(value, dict):
        return None
    for holder in (value, value.get("values"), value.get("kwargs"), value.get("output")):
        messages = holder.get("messages") if isinstance(holder, dict) else None
        if isinstance(messages, list) and messages:
            return messages
    return None


def _is_state(value: dict[str, Any]) -> bool:
    """Return whether a document holds a list of messages, or is a message."""
    messages = find_messages(value)
    if messages is None:
        return is_message(value, surely=True)
    messages = messages[:_SAMPLE_SIZE]
    if not all(is_message(message) for message in messages):
        return False
    return any(is_message(message, surely=True) for message in messages)


def is_run(value: Any) -> bool:
    """Return whether a value is a run of LangSmith."""
    if not isinstance(value, dict):
        return False
    if "run_type" not in value:
        # What is sent at the end of a run does not repeat its type.
        return "dotted_order" in value and "trace_id" in value
    if not isinstance(value["run_type"], str):
        return False
    return any(name in value for name in _RUN_FIELDS)


def is_payload(value: Any) -> bool:
    """Return whether a value holds runs: as the SDK sends them (`post`, `patch`), or as a list."""
    if not isinstance(value, dict):
        return False
    for name in ("post", "patch", "runs"):
        runs = value.get(name)
        if isinstance(runs, list) and any(is_run(run) for run in runs[:64]):
            return True
    return False


def has_runs(source: Source) -> bool:
    """Return whether the source holds LangSmith runs rather than messages."""
    records = get_first_records(source)
    return bool(records) and (is_run(records[0]) or is_payload(records[0]))
