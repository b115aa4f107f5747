"""ATIF, the trajectory format of Harbor: one document per agent, with subagents and continuations
in or beside it."""

from importlib import import_module
from typing import Any, cast

from open_token.draft import Draft
from open_token.model import Found
from open_token.source import Source

TITLE = "Harbor ATIF trajectories"
PLACES: tuple[str, ...] = ()
PARTS = ("trajectory.cont-*.json", "*.summarization-*.json")
SEEN = "ATIF v1.0 to v1.8, described, not seen"
CARRIES = "Steps with thoughts, calls, results, media references, subagents and continuations, token counts and cost."
LEAVES = "Token ids and log probabilities, the definitions of tools but for their names, steps copied from another file."


def sniff(source: Source) -> bool:
    """Whether every document says that it is ATIF; a file may hold many, as lines or in a list."""
    sample = source.sample
    if len(sample) == 1 and isinstance(sample[0], list):
        sample = sample[0]
    return bool(sample) and all(is_trajectory(document) for document in sample)


def conversations(source: Source) -> list[Found]:
    """Every trajectory of the file."""
    return cast(list[Found], _parts().found(source))


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The trajectory that a line or an item is."""
    return cast(str | None, _parts().owner(source, at))


def _parts() -> Any:
    return import_module("open_token.readers._atif_parts")


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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._atif").read(source, draft)
