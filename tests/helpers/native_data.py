"""Exports with their embedded source as plain values, for tests that look for text in them."""

import json
from typing import Any

from open_token.native.compression import expand_event


def expand_document(document: Any) -> Any:
    """Return a parsed document with its native annotations expanded."""
    return {**document, "events": [expand_event(event) for event in document["events"]]}


def expand_bytes(raw: bytes) -> str:
    """Return the text of an export, JSON or NDJSON, with its native annotations expanded."""
    text = raw.decode()
    try:
        return json.dumps(expand_document(json.loads(text)), ensure_ascii=False)
    except (json.JSONDecodeError, KeyError):
        lines = [json.loads(line) for line in text.splitlines()]
        return "\n".join(json.dumps(_expand_line(line), ensure_ascii=False) for line in lines)


def _expand_line(line: Any) -> Any:
    return expand_event({**line, "type": line["event_type"]}) if "event_type" in line else line
