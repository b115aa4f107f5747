"""OpenAI Realtime: items once, pieces without an end, interruptions, unknown and broken events."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["openai_realtime"]
SESSION = {"type": "session.created", "session": {"model": "gpt-realtime"}}

read = build_read_function(READER)


def piece(name: str, text: str, kind: str = "response.output_text.delta") -> dict[str, Any]:
    return {"type": kind, "item_id": name, "content_index": 0, "delta": text}


def said(name: str, role: str, text: str) -> dict[str, Any]:
    part = {"type": "input_text" if role == "user" else "output_text", "text": text}
    return {"id": name, "type": "message", "role": role, "content": [part]}


def test_pieces_without_an_end_are_exported() -> None:
    _, events = read([SESSION, piece("a", "The "), piece("a", "wat")])
    assert summarize_events(events) == [("assistant", "The wat")]


def test_pieces_are_not_exported_beside_the_whole() -> None:
    done = {"type": "response.output_text.done", "item_id": "a", "text": "The water"}
    item = {"type": "response.output_item.done", "item": said("a", "assistant", "The water")}
    events = [SESSION, piece("a", "The "), piece("a", "water"), done, piece("a", "water"), item]
    assert summarize_events(read(events)[1]) == [("assistant", "The water")]


def test_changed_instructions_are_exported() -> None:
    first = {"type": "session.update", "session": {"instructions": "be brief"}}
    echo = {"type": "session.updated", "session": {"instructions": "be brief"}}
    second = {"type": "session.updated", "session": {"instructions": "be long"}}
    _, events = read([SESSION, first, echo, second])
    assert summarize_events(events) == [("system", "be brief"), ("system", "be long")]


def test_the_same_words_twice_are_two_items() -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    create = {"type": "conversation.item.create", "item": item}
    echoes = [
        {"type": "conversation.item.added", "item": {**item, "id": name}} for name in ("a", "b")
    ]
    _, events = read([SESSION, create, create, *echoes])
    assert summarize_events(events) == [("user", "hi"), ("user", "hi")]


def test_an_interrupted_answer_is_marked() -> None:
    cut = {"type": "conversation.item.truncated", "item_id": "a", "audio_end_ms": 5}
    _, events = read([SESSION, piece("a", "The wat"), cut])
    facts = {"kind": "message_facts", "interrupted": True, "audio_end_ms": 5}
    assert summarize_events(events) == [("assistant", "The wat"), ("annotation", facts)]


def test_unknown_events_are_noted() -> None:
    record, _ = read([SESSION, piece("a", "x"), {"type": "conversation.hologram", "words": "y"}])
    assert "unknown-record" in [note.code for note in record.notes]


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "response.created", "response": {}}, {"type": "response.output_text.delta"}],
        [{"type": "session.created", "id": "x"}],
        [{"type": "session.created", "session": "x"}],
        [{"type": "input_audio_buffer.append"}, {"a": 1}, {"b": 2}],
    ],
)
def test_other_values_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_a_stream_of_the_responses_api_is_left_to_its_reader() -> None:
    events = [{"type": "response.created", "response": {"id": "resp_1", "output": []}}]
    assert detect_format(Source("x", data=json.dumps(events).encode())) == "openai_responses"


@pytest.mark.parametrize(
    "event",
    [
        3,
        {"type": "session.updated", "session": {"tools": 3, "instructions": []}},
        {"type": "conversation.item.added", "item": 3},
        {"type": "conversation.item.added", "item": {"id": "a", "type": "message", "content": 3}},
        {"type": "response.done", "response": {"output": [3, {}], "usage": {"input_tokens": "x"}}},
        {"type": "response.output_text.delta", "item_id": 3, "content_index": "x", "delta": 4},
        {"type": "conversation.item.input_audio_transcription.completed", "transcript": 3},
        {"type": "response.function_call_arguments.done", "arguments": 4},
    ],
)
def test_broken_events_do_no_harm(event: Any) -> None:
    read([SESSION, SESSION, event])


def test_a_huge_content_index_costs_no_time() -> None:
    """Found by swapping values: the reader counted up to the index."""
    _, events = read([SESSION, {**piece("a", "The water"), "content_index": 2**70}])
    assert summarize_events(events) == [("assistant", "The water")]
