"""Detection of ATIF trajectories."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether every document is ATIF; a file may hold many, as lines or in a list."""
    sample = source.sample
    if len(sample) == 1 and isinstance(sample[0], list):
        sample = sample[0]
    return bool(sample) and all(_is_trajectory(document) for document in sample)


def _is_trajectory(document: Any) -> bool:
    """Return whether a document names a version of ATIF and holds steps."""
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        return False
    version = document.get("schema_version")
    return isinstance(version, str) and version.startswith("ATIF-v")


def peek(records: list[Any]) -> dict[str, str]:
    """Return the id of the session."""
    for record in records:
        if _is_trajectory(record) and isinstance(record.get("session_id"), str):
            return {"id": record["session_id"]}
    return {}
