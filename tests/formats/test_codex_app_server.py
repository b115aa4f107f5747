"""Logs of the Codex app server: every item once, whichever way it was recorded."""

import json
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import summarize_events

READER = READERS["codex_app_server"]


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": "t", "turnId": "1", **params}}


def done(kind: str, number: str, **fields: Any) -> dict[str, Any]:
    return note("item/completed", item={"type": kind, "id": number, **fields})


def log(*records: Any) -> Source:
    return Source("log", data=b"".join(json.dumps(record).encode() + b"\n" for record in records))


def read(*records: Any) -> list[Any]:
    draft = Draft()
    READER.read(log(*records), draft)
    return summarize_events(list(draft.finish(lambda: "0" * 64).events))


DELTA = note("item/agentMessage/delta", itemId="m", delta="hel")
ANSWER = done("agentMessage", "m", text="hello")


@pytest.mark.parametrize("records", [(DELTA, ANSWER), (DELTA, ANSWER, DELTA), (ANSWER, ANSWER)])
def test_deltas_and_items_are_reported_once(records: Any) -> None:
    assert read(*records) == [("assistant", "hello")]


def test_a_prompt_that_no_item_repeats() -> None:
    request = {"id": 1, **note("turn/start", input=[{"type": "text", "text": "hi"}])}
    assert read(request, ANSWER) == [("user", "hi"), ("assistant", "hello")]
    item = done("userMessage", "u", content=[{"type": "text", "text": "hi"}])
    assert read(request, item, ANSWER) == [("user", "hi"), ("assistant", "hello")]
    assert read(request) == [("user", "hi")]


def test_a_resumed_thread_brings_its_turns() -> None:
    turn = {"id": "0", "items": [{"type": "agentMessage", "id": "m", "text": "hello"}]}
    answer = {"id": 1, "result": {"thread": {"id": "t", "turns": [turn]}, "model": "m"}}
    events = read({"id": 1, "method": "thread/resume", "params": {"threadId": "t"}}, answer, ANSWER)
    assert [event for event in events if event[0] == "assistant"] == [("assistant", "hello")]


def test_it_is_reported_apart_from_similar_logs() -> None:
    assert detect_format(log(ANSWER, DELTA)) == "codex_app_server"
    for other in (
        {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "x"}},
        {"method": "session/update", "params": {"sessionId": "s", "update": {}}},
        {"method": "item/completed", "params": {"item": {"type": "x"}}},
        {"method": "turn/started", "params": []},
    ):
        assert not READER.sniff(log(other, other))
