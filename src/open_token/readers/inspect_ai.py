"""Inspect AI: evaluation logs as JSON or as `.eval` archives, in which each sample of each epoch is
a conversation."""

from importlib import import_module
from typing import Any, cast

from open_token.draft import Draft
from open_token.model import Found
from open_token.source import Source

TITLE = "Inspect AI evaluation logs"
PLACES = (
    "$INSPECT_LOG_DIR/**/*.eval",
    "$INSPECT_LOG_DIR/**/20*T*_*.json",
    "./logs/*.eval",
    "./logs/20*T*_*.json",
)
SEEN = "JSON logs and archives of 0.3.41 to 0.3.95; message pools, chunked samples and agent spans are described, not seen"
CARRIES = "Messages, thoughts, calls, results and their errors, times, subagents, handoffs, scorers, scores, token counts."
LEAVES = "State, store and sandbox events, the provider's raw requests and answers, the plan, metadata of the dataset."
ASIDE = ("revision",)
"""Fields that nobody said."""

_ALONE = frozenset(("id", "epoch", "input", "target", "messages"))


def sniff(source: Source) -> bool:
    """Whether it is a log, an archive of one, or one sample out of an archive."""
    if source.shape == "zip":
        names = source.members
        return "_journal/start.json" in names or (
            ("header.json" in names or "start.json" in names)
            and any(name.startswith("samples/") for name in names)
        )
    if len(source.sample) != 1 or not isinstance(source.sample[0], dict):
        return False
    document = source.sample[0]
    return _is_log(document) or (
        document.keys() >= _ALONE and isinstance(document["messages"], list)
    )


def _is_log(document: dict[str, Any]) -> bool:
    spec = document.get("eval")
    return (
        isinstance(spec, dict)
        and "task" in spec
        and "model" in spec
        and {"version", "status"} <= document.keys()
    )


def conversations(source: Source) -> list[Found]:
    """Every sample of every epoch."""
    return cast(list[Found], _log().found(source))


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The sample that a part of the log is of."""
    return cast(str | None, _log().owner(source, at, value))


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._inspect_sample").read(source, draft)


def _log() -> Any:
    return import_module("open_token.readers._inspect_log")
