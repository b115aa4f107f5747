"""Which dialect an input speaks: exactly one reader claims what is a provider's, and none what is
another's."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.formats.shared.api_detection import detect_dialect
from open_token.registry import load_reader
from open_token.sources.source import Source

ROOT = Path(__file__).resolve().parents[3]
WIRES = ("anthropic_messages", "gemini_api", "openai_chat", "openai_responses")

USER = {"role": "user", "content": "hi"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
TOOL_USE = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
}
FUNCTION = {"type": "function", "function": {"name": "f"}}
CONTENT = {"role": "user", "parts": [{"text": "hi"}]}
ITEM = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "yo"}, "finish_reason": "stop"}
REPLY = {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"}

CLAIMED: dict[str, list[Any]] = {
    "openai_chat": [
        {"model": "m", "messages": [USER]},
        {"messages": [USER]},
        [USER],
        [PARTS],
        [USER, {"role": "assistant", "content": None, "tool_calls": []}],
        {"model": "claude-sonnet-4", "messages": [USER]},
        {"model": "claude-sonnet-4", "max_tokens": 9, "messages": [USER], "tools": [FUNCTION]},
        {"path": "/v1/chat/completions", "messages": [PARTS]},
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
            ],
        },
        {"object": "chat.completion", "choices": [CHOICE]},
        {
            "request": {"messages": [USER], "max_tokens": 9, "model": "claude-x"},
            "response": {"choices": [CHOICE]},
        },
        {"model": "m", "messages": [USER], "response": {"choices": [CHOICE]}},
        [{"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}}]}],
    ],
    "anthropic_messages": [
        {"model": "claude-x", "max_tokens": 9, "messages": [USER]},
        {"system": "s", "messages": [USER]},
        {"anthropic_version": "bedrock-2023-05-31", "messages": [PARTS]},
        {"path": "/v1/messages?beta=true", "messages": [USER]},
        [USER, TOOL_USE],
        {"messages": [USER], "tools": [{"name": "f", "input_schema": {}}]},
        REPLY,
        {"request": {"messages": [USER]}, "response": REPLY},
        [{"type": "message_start", "message": {}}, {"type": "ping"}],
    ],
    "openai_responses": [
        {"model": "m", "input": "hi"},
        {"model": "m", "input": [USER]},
        {"input": [USER, ITEM]},
        {"model": "m", "input": [USER, {"type": "call_of_next_year", "id": "x"}, ITEM]},
        [USER, ITEM],
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        {"object": "response", "output": []},
        {
            "request": {"input": "hi", "model": "m"},
            "response": {"object": "response", "output": []},
        },
        [{"type": "response.created", "response": {}}],
    ],
    "gemini_api": [
        {"contents": [CONTENT]},
        {"model": "m", "contents": "hi"},
        {"contents": [CONTENT, {"role": "model", "parts": [{"partOfNextYear": {}}]}]},
        [CONTENT, {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}],
        {"candidates": [{"content": CONTENT, "finishReason": "STOP"}]},
        {"candidates": [{"finish_reason": "STOP"}], "usage_metadata": {}},
        {"request": {"contents": [CONTENT]}, "response": {"candidates": [], "usageMetadata": {}}},
    ],
}

OTHERS: list[Any] = [
    {},
    [],
    "text",
    7,
    [[USER]],
    {"messages": []},
    {"messages": "hi"},
    {"messages": [{"role": "narrator", "content": "once"}]},
    {"messages": [USER], "response": "plain words"},
    {"type": "user", "uuid": "u", "sessionId": "s", "message": USER},
    {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": ITEM},
    [{"title": "t", "mapping": {}, "current_node": "n"}],
    [{"uuid": "u", "chat_messages": []}],
    {"sessionId": "s", "projectHash": "p", "messages": [{"type": "user", "content": "hi"}]},
    [{"conversations": [{"from": "human", "value": "hi"}]}],
    [{"messages": [USER], "images": ["a.jpg"]}],
    [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}],
    {"messages": [USER], "kwargs": {}, "latency_sec": 1.0, "response": {"choices": [CHOICE]}},
    [{"role": "user", "content": [{"type": "text", "text": "<task>\nfix it\n</task>"}]}, TOOL_USE],
    [{**TOOL_USE, "modelInfo": {"modelId": "m"}}],
    [{"type": "human", "content": "hi"}],
    {"lc": 1, "type": "constructor", "kwargs": USER},
    [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
    [{"role": "user", "created": 1, "content": [{"type": "text", "text": "hi"}]}],
    {"role": "user", "message": {"content": [{"type": "text", "text": "hi"}]}},
    {"history": [USER]},
    {"info": {}, "messages": [USER], "trajectory_format": "x"},
    {"threadId": "t", "runId": "r", "messages": [USER]},
    {"model": "m", "input": [{"type": "of_next_year"}]},
    {"model": "m", "input": [USER, {"type": "of_next_year", "kind": "k"}]},
    {"model": "m", "input": [USER, "words"]},
    {"contents": [{"role": "model", "parts": [{"partOfNextYear": {}}]}]},
    {"contents": [CONTENT, {"role": "model", "parts": [{"type": "text"}]}]},
    {"model": "text-embedding-3-small", "input": "hi"},
    {"model": "tts-1", "input": "hi", "voice": "alloy"},
    {"prompt": "Once", "choices": [{"text": "upon"}]},
    {"type": "error", "message": "no"},
    {"open_token_version": "0.1", "events": []},
]


def source(value: Any) -> Source:
    return Source("input", data=json.dumps(value).encode())


def claims(given: Source) -> list[str]:
    return [name for name in WIRES if load_reader(name).sniff(given)]


@pytest.mark.parametrize(
    ("reader", "value"),
    [(name, value) for name, values in CLAIMED.items() for value in values],
    ids=str,
)
def test_one_reader_claims_it(reader: str, value: Any) -> None:
    assert claims(source(value)) == [reader]


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: json.dumps(value)[:60])
def test_none_claims_it(value: Any) -> None:
    assert claims(source(value)) == []


@pytest.mark.parametrize("reader", CLAIMED)
def test_lines_are_claimed_as_documents_are(reader: str) -> None:
    for value in CLAIMED[reader]:
        records = value if isinstance(value, list) else [value]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        assert detect_dialect(Source("input", data=lines.encode())) == reader, lines


def test_lines_of_two_dialects_are_nobodys() -> None:
    lines = (
        json.dumps(CLAIMED["gemini_api"][0])
        + "\n"
        + json.dumps(CLAIMED["openai_responses"][0])
        + "\n"
    )
    assert detect_dialect(Source("input", data=lines.encode())) is None


def test_one_odd_line_among_messages_is_a_no() -> None:
    lines = json.dumps(USER) + "\n" + json.dumps({"role": "_checkpoint", "id": 0}) + "\n"
    assert detect_dialect(Source("input", data=lines.encode())) is None


def test_a_plain_list_is_anthropic_as_soon_as_one_message_is() -> None:
    lines = [USER] * 20 + [TOOL_USE]
    assert detect_dialect(source(lines)) == "anthropic_messages"


@pytest.mark.parametrize("reader", WIRES)
def test_examples_are_claimed_by_their_reader(reader: str) -> None:
    assert claims(Source.of(ROOT / "examples" / f"{reader}.json")) == [reader]


def test_requests_of_real_clients_are_claimed(corpus: Path) -> None:
    expected = {"claude": "anthropic_messages", "codex": "openai_responses", "gemini": "gemini_api"}
    for path in sorted(corpus.glob("native_minimal/*/resume_request.json")):
        assert claims(Source.of(path)) == [expected.get(path.parent.name, "openai_chat")]


def test_nothing_else_in_the_corpus_is_claimed(corpus: Path) -> None:
    paths = [
        *corpus.glob("*/*.json"),
        *corpus.glob("*/*.jsonl"),
        *corpus.glob("native_minimal/*/*.jsonl"),
    ]
    skipped = {"jsontestsuite", "jcs", "redaction"}
    claimed = [
        str(path) for path in paths if path.parent.name not in skipped and claims(Source.of(path))
    ]
    assert claimed == []
