"""Detection of recorded HTTP: VCR cassettes in YAML and JSON, and HAR files."""

import re
from typing import Any

from open_token.sources.source import Source

_CASSETTE = re.compile(rb"^(?:http_)?interactions:", re.MULTILINE)
_REQUEST = re.compile(rb"^ *(?:- )?request:\s", re.MULTILINE)
_INSPECTED = 8


def sniff(source: Source) -> bool:
    """Return whether the content is a recording."""
    if source.shape == "text":
        return bool(_CASSETTE.search(source.head) and _REQUEST.search(source.head))
    return len(source.sample) == 1 and _is_recording(source.sample[0])


def _is_recording(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    log = value.get("log")
    if isinstance(log, dict) and isinstance(log.get("entries"), list):
        return _are_exchanges(log["entries"])
    return _are_exchanges(value.get("interactions", value.get("http_interactions")))


def _are_exchanges(items: Any) -> bool:
    if not isinstance(items, list) or not items:
        return False
    return all(
        isinstance(item, dict) and "request" in item and "response" in item
        for item in items[:_INSPECTED]
    )
