"""What a file of OpenHands is, told by its first records, and in which order the files of a folder
stand."""

from itertools import chain
from pathlib import PurePath
from typing import Any

from open_token.sources.source import Source

EVENTS = ("events/event-*.json", "event-*.json")
OLD_EVENTS = ("events/[0-9]*.json", "[0-9]*.json")
_SOURCES = ("user", "agent", "environment", "hook")


def flat(records: list[Any]) -> list[Any]:
    """The records; where one document is a list, or holds pairs of action and observation, what is
    in them."""
    if len(records) == 1 and isinstance(records[0], list):
        records = records[0]
    if any(isinstance(record, list) for record in records[:1]):
        records = list(
            chain.from_iterable(pair if isinstance(pair, list) else [pair] for pair in records)
        )
    return records


def is_event(record: Any) -> bool:
    """An event of the SDK: its kind, who made it, and when."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("kind"), str)
        and record.get("source") in _SOURCES
        and "timestamp" in record
        and "id" in record
    )


def is_old_event(record: Any) -> bool:
    """An action or an observation of version 0."""
    if not isinstance(record, dict) or "kind" in record or "role" in record:
        return False
    if isinstance(record.get("action"), str):
        return isinstance(record.get("args"), dict)
    return isinstance(record.get("observation"), str) and isinstance(record.get("extras"), dict)


def is_state(record: Any) -> bool:
    """The state that is kept beside the events of a conversation."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("agent"), dict)
        and isinstance(record.get("id"), str)
        and ("execution_status" in record or "agent_status" in record)
        and ("workspace" in record or "persistence_dir" in record)
    )


def is_log(record: Any) -> bool:
    """The log of one call of a model: what was sent, what came back, what it cost."""
    if not isinstance(record, dict) or not isinstance(record.get("response"), dict):
        return False
    asked = isinstance(record.get("messages"), list) or isinstance(record.get("input"), list)
    return asked and "timestamp" in record and "latency_sec" in record


def is_run(record: Any) -> bool:
    """One run of a benchmark: the task by its id, the events of the agent, how it ended."""
    if not isinstance(record, dict) or not isinstance(record.get("instance_id"), str):
        return False
    history = record.get("history")
    if not isinstance(history, list) or not record.keys() & {"test_result", "metrics", "metadata"}:
        return False
    first = flat(history[:1])[:1]
    return not history or any(is_event(event) or is_old_event(event) for event in first)


def in_order(files: list[Source]) -> list[Source]:
    """The files of a folder by the number in their names, which outgrows its zeros in a long
    conversation."""
    return sorted(files, key=lambda file: (_number(file.name), file.name))


def _number(name: str) -> int:
    digits = PurePath(name).name.removeprefix("event-").partition("-")[0].partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 19 else 0
