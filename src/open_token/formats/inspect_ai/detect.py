"""Detection of Inspect AI logs."""

from typing import Any

from open_token.sources.source import Source

_SAMPLE_FIELDS = frozenset(("id", "epoch", "input", "target", "messages"))


def sniff(source: Source) -> bool:
    """Return whether the source is a log, an archive of one, or one sample out of an archive."""
    if source.shape == "zip":
        return _is_archive(source.members)
    if len(source.sample) != 1 or not isinstance(source.sample[0], dict):
        return False
    document = source.sample[0]
    return _is_log(document) or _is_sample(document)


def _is_archive(names: Any) -> bool:
    # A log that is still being written has no header yet, only a journal.
    if "_journal/start.json" in names:
        return True
    if "header.json" not in names and "start.json" not in names:
        return False
    return any(name.startswith("samples/") for name in names)


def _is_log(document: dict[str, Any]) -> bool:
    spec = document.get("eval")
    if not isinstance(spec, dict) or "task" not in spec or "model" not in spec:
        return False
    return "version" in document and "status" in document


def _is_sample(document: dict[str, Any]) -> bool:
    return document.keys() >= _SAMPLE_FIELDS and isinstance(document["messages"], list)
