"""DeepSeek exports: fragments, the zip, odd messages, and what is not claimed."""

import io
import json
import zipfile
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["deepseek_export"]

read = build_read_function(READER)


def export(*messages: Any) -> list[dict[str, Any]]:
    mapping: dict[str, Any] = {"root": {"id": "root", "parent": None, "message": None}}
    parent = "root"
    for number, message in enumerate(messages, 1):
        mapping[str(number)] = {"id": str(number), "parent": parent, "message": message}
        parent = str(number)
    return [
        {"id": "d", "title": "T", "inserted_at": "2025-09-01T10:00:00+08:00", "mapping": mapping}
    ]


def said(*fragments: Any, **fields: Any) -> dict[str, Any]:
    return {"fragments": list(fragments), "model": "deepseek-chat", "files": [], **fields}


REQUEST = {"type": "REQUEST", "content": "hi"}
RESPONSE = {"type": "RESPONSE", "content": "hello"}


def test_facts_and_fragments() -> None:
    record, events = read(export(said(REQUEST), said({"type": "THINK", "content": "hm"}, RESPONSE)))
    assert summarize_events(events) == [
        ("user", "hi"),
        ("assistant_thought", "hm"),
        ("assistant", "hello"),
    ]
    assert record.conversation["id"] == "d"
    assert record.conversation["started_at"] == "2025-09-01T02:00:00Z"


def test_the_zip_as_it_comes() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("user.json", "{}")
        packed.writestr("conversations.json", json.dumps(export(said(REQUEST))))
    assert detect_format(Source("x", data=out.getvalue())) == "deepseek_export"


@pytest.mark.parametrize(
    "message",
    [
        5,
        {},
        said(5, {}, {"type": "THINK"}, {"type": "RESPONSE", "content": {"a": 1}}),
        {"fragments": 5, "model": [], "files": 5, "inserted_at": 7},
        {"role": 5, "content": "x"},
        said({"type": "REQUEST", "content": {"a": 1}}, files=[5, {"id": "f"}]),
    ],
)
def test_misshapen_messages(message: Any) -> None:
    _, events = read(export(said(REQUEST), message))
    assert ("user", "hi") in summarize_events(events)


@pytest.mark.parametrize(
    "value",
    [
        [{"id": "c", "title": "T", "create_time": 1, "mapping": {}, "current_node": "n"}],
        [{"inserted_at": "2025-09-01T10:00:00+08:00", "mapping": []}],
        [{"inserted_at": "x", "mapping": {"a": 5}}],
        {"inserted_at": "2025-09-01T10:00:00+08:00", "messages": []},
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_it_is_detected() -> None:
    data = json.dumps(export(said(REQUEST))).encode()
    assert detect_format(Source("x", data=data)) == "deepseek_export"
