"""Logs of the Agent Client Protocol: calls in pieces, several sessions, other protocols."""

import json
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import summarize_events

READER = READERS["acp"]


def update(session: str = "s1", **fields: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": fields},
    }


def prompt(text: str, session: str = "s1", number: int = 1) -> dict[str, Any]:
    blocks = [{"type": "text", "text": text}]
    params = {"sessionId": session, "prompt": blocks}
    return {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}


def chunk(text: str, session: str = "s1") -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return update(session, sessionUpdate="agent_message_chunk", content=content)


def log(*records: Any) -> Source:
    return Source("log", data=b"".join(json.dumps(record).encode() + b"\n" for record in records))


def read(source: Source) -> list[Any]:
    draft = Draft()
    READER.read(source, draft)
    return list(draft.finish(lambda: "0" * 64).events)


def test_a_call_waits_for_its_arguments() -> None:
    events = read(
        log(
            prompt("go"),
            update(sessionUpdate="tool_call", toolCallId="a", title="Read", rawInput={}),
            update(sessionUpdate="tool_call", toolCallId="b", kind="read", title="Read"),
            update(sessionUpdate="tool_call_update", toolCallId="a", rawInput={"path": "x"}),
            chunk("done"),
        )
    )
    calls = [item["content"]["data"] for item in events if item["type"] == "tool_use"]
    assert [call["arguments"] for call in calls] == [{"path": "x"}, {}]
    assert summarize_events(events)[-1] == ("assistant", "done")


def test_each_session_is_a_conversation() -> None:
    records = (prompt("one"), prompt("two", "s2", 2), chunk("first"), chunk("second", "s2"))
    assert [found.id for found in READER.list_conversations(log(*records))] == ["s1", "s2"]
    source = log(*records)
    source.conversation = "s2"
    assert summarize_events(read(source)) == [("user", "two"), ("assistant", "second")]
    assert READER.find_owner(source, "/2", records[1]) == "s2"
    assert READER.find_owner(source, "/3", {"id": 1, "result": {}}) is None


def test_one_session_is_not_listed() -> None:
    assert READER.list_conversations(log(prompt("one"), chunk("first"))) == []


@pytest.mark.parametrize(
    "record",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"progress": 1}},
        {"method": "session/new", "params": "x"},
        {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "1"}}},
    ],
)
def test_other_protocols_are_not_claimed(record: Any) -> None:
    assert not READER.sniff(log(record, record))


@pytest.mark.parametrize("wrap", ["message", "payload", "data"])
def test_messages_in_envelopes_and_strings(wrap: str) -> None:
    records = [prompt("hello"), chunk("hi")]
    for wrapped in (
        [{"ts": 1772442000, wrap: record} for record in records],
        [{"time": "2026-03-02T09:00:00Z", wrap: json.dumps(record)} for record in records],
    ):
        source = log(*wrapped)
        assert detect_format(source) == "acp"
        events = read(source)
        assert summarize_events(events) == [("user", "hello"), ("assistant", "hi")]
        assert events[0]["ts"] == "2026-03-02T09:00:00Z"
