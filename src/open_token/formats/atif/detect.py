"""ATIF, the trajectory format of Harbor: one document per agent, with subagents and continuations
in or beside it."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether every document says that it is ATIF; a file may hold many, as lines or in a list."""
    sample = source.sample
    if len(sample) == 1 and isinstance(sample[0], list):
        sample = sample[0]
    return bool(sample) and all(is_trajectory(document) for document in sample)


def is_trajectory(document: Any) -> bool:
    """Whether a document names a version of ATIF and holds steps."""
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        return False
    version = document.get("schema_version")
    return isinstance(version, str) and version.startswith("ATIF-v")


def peek(records: list[Any]) -> dict[str, str]:
    """What the document tells of itself: the id of its session."""
    for record in records:
        if is_trajectory(record) and isinstance(name := record.get("session_id"), str):
            return {"id": name}
    return {}
