"""Conversations of LM Studio: versions, steps, ids of files, broken input."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events
from readers.session_files import assert_takes_odd_shapes, read_file

READER = READERS["lm_studio"]

read = build_read_function(READER)


def version(role: str, *content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "singleStep", "role": role, "content": list(content), **fields}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def conversation(*messages: list[Any], selected: Any = 0, **fields: Any) -> dict[str, Any]:
    made = [{"versions": versions, "currentlySelected": selected} for versions in messages]
    return {"name": "T", "createdAt": 1750000000000, "messages": made, **fields}


def test_the_id_is_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "1750000000000.conversation.json"
    path.write_text(json.dumps(conversation([version("user", text("hi"))])))
    record, _ = read_file(READER, path)
    assert record.conversation["id"] == "1750000000000"
    assert record.conversation["title"] == "T"
    assert record.conversation["started_at"] == "2025-06-15T15:06:40Z"


@pytest.mark.parametrize("selected", [5, -1, None, "0", True])
def test_a_selection_out_of_range(selected: Any) -> None:
    versions = [version("user", text("first")), version("user", text("last"))]
    _, events = read(conversation(versions, selected=selected))
    assert summarize_events(events) == [("user", "last")]


def test_an_answer_without_steps() -> None:
    value = conversation([version("user", text("hi"))], [version("assistant", text("hello"))])
    _, events = read(value)
    assert summarize_events(events) == [("user", "hi"), ("assistant", "hello")]


def test_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "lm_studio")


@pytest.mark.parametrize(
    "value",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": "x"}]},
        {"messages": [{"versions": [], "role": "user"}]},
        {"messages": [{"versions": {}, "currentlySelected": 0}]},
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_it_is_detected() -> None:
    data = json.dumps(conversation([version("user", text("hi"))])).encode()
    assert detect_format(Source("x", data=data)) == "lm_studio"
