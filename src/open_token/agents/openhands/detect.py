"""Recognize OpenHands input: SDK events, version 0 events, benchmark runs, logs of model calls."""

from pathlib import PurePath
from typing import Any

from open_token.sources.source import Source

EVENT_FILES = ("events/event-*.json", "event-*.json")
VERSION0_FILES = ("events/[0-9]*.json", "[0-9]*.json")
_SOURCES = ("user", "agent", "environment", "hook")


def sniff(source: Source) -> bool:
    """Return whether the source is a conversation, in a folder or a file, or a log."""
    if source.shape == "folder":
        return _is_conversation_folder(source)
    sample = flatten(source.sample)
    if not sample:
        return False
    if any(is_sdk_event(record) or is_version0_event(record) for record in sample):
        return True
    if len(sample) == 1 and is_state(sample[0]):
        return True
    return all(is_model_log(record) for record in sample) or has_runs(source)


def has_runs(source: Source) -> bool:
    """Return whether the source holds runs of a benchmark.

    All of the sample counts: the first run may have failed before its first event.
    """
    if source.shape not in ("lines", "document", "glued"):
        return False
    return any(is_run(record) for record in flatten(source.sample))


def _is_conversation_folder(source: Source) -> bool:
    for file in source.find_files("base_state.json"):
        if file.sample and is_state(file.sample[0]):
            return True
    for patterns, is_event in ((EVENT_FILES, is_sdk_event), (VERSION0_FILES, is_version0_event)):
        files = find_files(source, patterns)
        if files:
            return bool(files[0].sample) and is_event(files[0].sample[0])
    return False


def peek(records: list[Any]) -> dict[str, str]:
    """Return the id and the working directory from the state of a conversation."""
    facts: dict[str, str] = {}
    for record in records:
        if not is_state(record):
            continue
        facts["id"] = record["id"]
        workspace = record.get("workspace")
        cwd = workspace.get("working_dir") if isinstance(workspace, dict) else None
        if isinstance(cwd, str):
            facts["cwd"] = cwd
    return facts


def flatten(records: list[Any]) -> list[Any]:
    """Return the records of a document that is a list, and of pairs of action and observation."""
    if len(records) == 1 and isinstance(records[0], list):
        records = records[0]
    if not records or not isinstance(records[0], list):
        return records
    flat: list[Any] = []
    for record in records:
        if isinstance(record, list):
            flat += record
        else:
            flat.append(record)
    return flat


def is_sdk_event(record: Any) -> bool:
    """Return whether the record is an event of the SDK."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("kind"), str)
        and record.get("source") in _SOURCES
        and "timestamp" in record
        and "id" in record
    )


def is_version0_event(record: Any) -> bool:
    """Return whether the record is an action or an observation of version 0."""
    # Events of the SDK have a kind, messages of other formats a role.
    if not isinstance(record, dict) or "kind" in record or "role" in record:
        return False
    if isinstance(record.get("action"), str):
        return isinstance(record.get("args"), dict)
    return isinstance(record.get("observation"), str) and isinstance(record.get("extras"), dict)


def is_state(record: Any) -> bool:
    """Return whether the record is the state of a conversation."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("agent"), dict)
        and isinstance(record.get("id"), str)
        and ("execution_status" in record or "agent_status" in record)
        and ("workspace" in record or "persistence_dir" in record)
    )


def is_model_log(record: Any) -> bool:
    """Return whether the record is the log of one model call, with request and response."""
    if not isinstance(record, dict) or not isinstance(record.get("response"), dict):
        return False
    if not isinstance(record.get("messages"), list) and not isinstance(record.get("input"), list):
        return False
    return "timestamp" in record and "latency_sec" in record


def is_run(record: Any) -> bool:
    """Return whether the record is one run of a benchmark: a task, its events, the outcome."""
    if not isinstance(record, dict) or not isinstance(record.get("instance_id"), str):
        return False
    history = record.get("history")
    if not isinstance(history, list) or not record.keys() & {"test_result", "metrics", "metadata"}:
        return False
    if not history:
        return True
    first = flatten(history[:1])[:1]
    return any(is_sdk_event(event) or is_version0_event(event) for event in first)


def find_files(source: Source, patterns: tuple[str, ...]) -> list[Source]:
    """Return the files in a folder that match the first pattern with any match."""
    for pattern in patterns:
        files = source.find_files(pattern)
        if files:
            return files
    return []


def sort_event_files(files: list[Source]) -> list[Source]:
    """Sort files by the number in their names, which outgrows its leading zeros."""
    return sorted(files, key=lambda file: (_parse_number(file.name), file.name))


def _parse_number(name: str) -> int:
    digits = PurePath(name).name.removeprefix("event-").partition("-")[0].partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 19 else 0
