"""What the tests of the framework readers share: exports with everything in them, and how much of a
file they keep."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from open_token.context import Context
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import detect_format
from open_token.sources.source import Source
from open_token.validation.validate import validate

EVERYTHING = {
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "redact": "none",
    "exported_at": "omit",
}


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def stream(*records: Any) -> bytes:
    return "".join(f"data: {json.dumps(record)}\n\n" for record in records).encode()


def claimed(value: Any) -> str:
    """The one reader that takes a value."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return detect_format(Source("input", data=data))


def exported(path: Path, **words: str) -> dict[str, Any]:
    """The export of a file with everything in it; it must be valid and verifiable."""
    out = io.BytesIO()
    export(Source.of(path), out, Context(ExportOptions.of(EVERYTHING | words)))
    data = out.getvalue()
    document: dict[str, Any] = json.loads(data)
    assert [problem for problem in validate(document) if problem.severity == "error"] == []
    assert verify_bytes(data).status == VERIFIED
    return document


def said_in(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    """The texts under these names, wherever they stand, also in JSON that stands in a text."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if name in names and isinstance(item, str):
            yield item
        yield from said_in(item, names)
    for item in value if isinstance(value, list) else ():
        yield from said_in(item, names)


def join_texts(document: dict[str, Any]) -> str:
    return "\n".join(iter_strings([event["content"] for event in document["events"]]))


def paired(events: list[Any]) -> None:
    """Every call has one result, and every result a call."""
    calls = [event["links"]["call_id"] for event in events if event["type"] == "tool_use"]
    results = [event["links"]["call_id"] for event in events if event["type"] == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)


def notes_of(events: list[Event], kind: str) -> list[dict[str, Any]]:
    """The data of the annotations of a kind, without it."""
    found = [event["content"]["data"] for event in events if event["type"] == "annotation"]
    return [
        {name: item for name, item in data.items() if name != "kind"}
        for data in found
        if data["kind"] == kind
    ]
