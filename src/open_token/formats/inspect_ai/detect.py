"""Inspect AI: evaluation logs as JSON or as `.eval` archives, in which each sample of each epoch is
a conversation."""

from typing import Any

from open_token.sources.source import Source

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
