"""Reads recorded HTTP: VCR cassettes in YAML and JSON, and HAR files, for the model calls that they
hold."""

import re
from typing import Any

from open_token.sources.source import Source

_CASSETTE = re.compile(rb"^(?:http_)?interactions:", re.MULTILINE)
_ASKED = re.compile(rb"^ *(?:- )?request:\s", re.MULTILINE)
_LISTS = ("interactions", "http_interactions")


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    if source.shape == "text":
        return bool(_CASSETTE.search(source.head) and _ASKED.search(source.head))
    return len(source.sample) == 1 and _is_recording(source.sample[0])


def _is_recording(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    log = value.get("log")
    if isinstance(log, dict) and isinstance(log.get("entries"), list):
        return _are_exchanges(log["entries"])
    held = next((value[name] for name in _LISTS if name in value), None)
    return isinstance(held, list) and _are_exchanges(held)


def _are_exchanges(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(item, dict) and "request" in item and "response" in item for item in items[:8]
    )
