"""Exports of Chatbot UI: odd messages, and what is not claimed."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["chatbot_ui"]

read = build_read_function(READER)


def export(*messages: Any, **fields: Any) -> dict[str, Any]:
    made = {"id": "h", "name": "T", "prompt": "", "folderId": None, "model": {"id": "gpt-4"}}
    return {"version": 4, "history": [{**made, "messages": list(messages), **fields}]}


@pytest.mark.parametrize(
    "message",
    [
        5,
        {},
        {"role": 5, "content": []},
        {"role": "user", "content": None},
        {"role": "assistant", "content": 5},
        {"role": "hologram", "content": "x"},
    ],
)
def test_misshapen_messages(message: Any) -> None:
    record, events = read(export({"role": "user", "content": "said"}, message))
    assert ("user", "said") in summarize_events(events)
    assert len(events) > 2 or record.notes


@pytest.mark.parametrize(
    "value",
    [
        {"version": 4, "history": []},
        {"version": 4, "history": [{"id": "h", "messages": [], "model": "gpt-4"}]},
        {"history": [{"message": {"role": "user", "content": "x"}}]},
        export()["history"][0] | {"folderId": 1, "messages": {}},
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_it_is_detected() -> None:
    data = json.dumps(export({"role": "user", "content": "hi"})).encode()
    assert detect_format(Source("x", data=data)) == "chatbot_ui"
