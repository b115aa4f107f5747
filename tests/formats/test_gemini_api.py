"""The Gemini API: roles, thoughts, functions without ids, code, media, candidates, usage, both
spellings, streams."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["gemini_api"]

read = build_read_function(READER)


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def reply(*parts: Any, **more: Any) -> dict[str, Any]:
    candidate = {"content": model(*parts), "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-pro", **more}


def test_a_pair() -> None:
    request = {
        "systemInstruction": {"parts": [{"text": "brief"}], "role": "user"},
        "contents": [user({"text": "hi"})],
        "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}, {"codeExecution": {}}],
    }
    usage = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 4,
    }
    answer = reply(
        {"text": "**Hm**", "thought": True},
        {"text": "yo", "thoughtSignature": "s"},
        usageMetadata=usage,
    )
    record, events = read({"request": request, "response": answer})
    assert summarize_events(events) == [
        ("system", "brief"),
        ("annotation", {"kind": "tools", "names": ["f", "g", "codeExecution"]}),
        ("user", "hi"),
        ("assistant_thought", "**Hm**"),
        ("assistant", "yo"),
    ]
    assert events[3]["content"]["data"] == {"summary": "runtime"}
    assert events[4]["usage"] == tokens(
        input_tokens=15, output_tokens=23, reasoning_tokens=20, cache_read_tokens=4
    )
    assert "usage" not in events[3]
    assert record.conversation["provider"] == "google"
    assert record.participants[-1]["model"] == "gemini-2.5-pro"


def test_functions_without_ids_are_paired_by_name_and_order() -> None:
    _, events = read(
        [
            model(
                *(
                    {"functionCall": {"name": name, "args": {"n": n}}}
                    for n, name in enumerate("fgf")
                )
            ),
            user(
                *(
                    {"functionResponse": {"name": name, "response": {"n": n}}}
                    for n, name in ((1, "g"), (0, "f"), (2, "f"))
                )
            ),
        ]
    )
    assert [event["links"]["call_id"][-1] for event in events] == ["1", "2", "3", "2", "1", "3"]
    assert events[3]["content"] == {"mime": "application/json", "data": {"n": 1}}


def test_ids_that_the_client_gives_later() -> None:
    asked = user({"text": "q"})
    first = {
        "request": {"contents": [asked]},
        "response": reply(
            {"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "f"}}
        ),
    }
    copy = model(*({"functionCall": {"name": "f", "args": {}, "id": name}} for name in "ab"))
    results = user(
        *({"functionResponse": {"name": "f", "id": name, "response": {"r": name}}} for name in "ab")
    )
    _, events = read(
        [
            first,
            {"request": {"contents": [asked, copy, results]}, "response": reply({"text": "ok"})},
        ]
    )
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "message",
    ]
    assert [event["links"]["call_id"][-1] for event in events[1:5]] == ["1", "2", "1", "2"]


def test_ids_are_kept() -> None:
    _, events = read(
        [
            model({"functionCall": {"name": "f", "id": "x", "args": {}}}),
            user(
                {
                    "functionResponse": {
                        "name": "f",
                        "id": "x",
                        "response": {"ok": True},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
                    }
                }
            ),
        ]
    )
    assert events[0]["content"]["data"]["native_call_id"] == "x"
    assert events[1]["content"]["data"][0] == {"ok": True}
    assert events[1]["content"]["data"][1]["base64"] == PNG


def test_code_that_the_provider_ran() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1/0"}}
    _, events = read(
        reply(
            code,
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}},
            code,
            {"text": "oh"},
            code,
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
        )
    )
    assert events[0]["content"]["data"] == {
        "tool_name": "code_execution",
        "arguments": {"language": "PYTHON", "code": "1/0"},
    }
    results = {
        event["links"]["call_id"][-1]: event["content"]
        for event in events
        if event["type"] == "tool_result"
    }
    assert results["1"]["text"] == "42"
    assert results["2"]["data"] == {"missing_result": True}
    assert results["3"]["text"] == "no"
    assert events[-1]["content"]["data"] == {"kind": "result_facts", "outcome": "OUTCOME_FAILED"}


def test_media() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    song = {"file_data": {"mime_type": "audio/mp3", "file_uri": "https://example.org/song.mp3"}}
    _, events = read([user({"text": "see"}, picture, song)])
    blocks = events[0]["content"]["data"]
    assert blocks[0] == {"type": "text", "text": "see"}
    assert (blocks[1]["type"], blocks[1]["media_type"], blocks[1]["bytes"]) == (
        "image",
        "image/png",
        9,
    )
    assert blocks[2] == {
        "type": "audio",
        "url": "https://example.org/song.mp3",
        "media_type": "audio/mp3",
    }


def test_an_empty_turn_is_a_turn() -> None:
    assert summarize_events(
        read([user({"text": ""}), model({"text": "x"}, {"text": "", "thoughtSignature": "s"})])[1]
    ) == [
        ("user", ""),
        ("assistant", "x"),
    ]


def test_candidates_beside_the_first() -> None:
    body = reply({"text": "a"})
    call = {"functionCall": {"name": "f", "args": {}}}
    body["candidates"].append(
        {"content": model({"text": "b"}, call), "finishReason": "STOP", "index": 1}
    )
    assert summarize_events(read(body)[1]) == [("assistant", "a")]
    _, events = read(body, branches="all")
    assert [event["type"] for event in events] == [
        "message",
        "span_start",
        "message",
        "tool_use",
        "tool_result",
        "span_end",
    ]


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY"])
def test_an_unusual_end_is_reported(reason: str) -> None:
    body = reply({"text": "a"})
    body["candidates"][0]["finishReason"] = reason
    assert summarize_events(read(body)[1])[1] == (
        "annotation",
        {"kind": "message_facts", "finish_reason": reason},
    )


def test_a_blocked_prompt() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    _, events = read({"request": {"contents": [user({"text": "q"})]}, "response": body})
    assert summarize_events(events)[1] == (
        "annotation",
        {"kind": "message_facts", "block_reason": "SAFETY"},
    )
    assert events[2]["usage"] == tokens(input_tokens=4)


def test_sources_of_an_answer() -> None:
    body = reply({"text": "a"})
    found = {
        "webSearchQueries": ["q"],
        "groundingChunks": [{"web": {"uri": "u"}}],
        "searchEntryPoint": {"renderedContent": "<a>"},
    }
    body["candidates"][0]["groundingMetadata"] = found
    _, events = read(body)
    assert events[1]["content"]["data"]["grounding"] == {
        "webSearchQueries": ["q"],
        "groundingChunks": [{"web": {"uri": "u"}}],
    }


def test_thoughts_that_were_counted_but_not_given() -> None:
    record, _ = read(
        reply({"text": "a"}, usageMetadata={"thoughtsTokenCount": 9, "candidatesTokenCount": 1})
    )
    assert record.conversation["internal_availability"] == "unavailable"
    record, _ = read(reply({"text": "a"}))
    assert record.conversation["internal_availability"] == "unknown"


def test_dumps_of_the_libraries() -> None:
    request = {
        "model": "models/gemini-2.5-flash",
        "contents": "q",
        "config": {"system_instruction": "brief"},
    }
    part = {
        "text": None,
        "thought": None,
        "function_call": {"name": "f", "args": {"x": 1}, "id": None},
    }
    answer = {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "finish_reason": "STOP"}],
        "usage_metadata": {
            "prompt_token_count": 2,
            "candidates_token_count": 3,
            "thoughts_token_count": None,
        },
        "model_version": "gemini-2.5-flash",
        "create_time": "2026-02-01T10:00:00Z",
    }
    record, events = read({"request": request, "response": answer})
    assert summarize_events(events)[:3] == [
        ("system", "brief"),
        ("user", "q"),
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}}),
    ]
    assert events[2]["usage"] == tokens(input_tokens=2, output_tokens=3)
    assert events[2]["ts"] == record.conversation["started_at"] == "2026-02-01T10:00:00Z"


STREAM = [
    reply({"text": "**Co", "thought": True}, responseId="r"),
    reply({"text": "unt**", "thought": True}, responseId="r"),
    reply({"text": "three "}, responseId="r"),
    reply({"text": "pots"}, responseId="r"),
    reply({"functionCall": {"name": "f", "args": {}}}, responseId="r"),
    reply(
        {"text": "", "thoughtSignature": "s"}, responseId="r", usageMetadata={"promptTokenCount": 2}
    ),
]


@pytest.mark.parametrize("form", ["events", "lines", "list", "pair"])
def test_a_saved_stream_in_every_form(form: str) -> None:
    if form == "events":
        data: Any = "".join(f"data: {json.dumps(one)}\r\n\r\n" for one in STREAM).encode()
    elif form == "lines":
        data = "".join(json.dumps(one) + "\n" for one in STREAM).encode()
    else:
        data = STREAM if form == "list" else {"request": {"contents": []}, "response": STREAM}
    _, events = read(data)
    assert summarize_events(events) == [
        ("assistant_thought", "**Count**"),
        ("assistant", "three pots"),
        ("assistant", {"tool_name": "f", "arguments": {}}),
        ("tool", {"missing_result": True}),
    ]
    assert events[1]["usage"] == tokens(input_tokens=2)


def test_two_streams_are_two_answers() -> None:
    both = [reply({"text": "a"}, responseId="1"), reply({"text": "b"}, responseId="2")]
    assert summarize_events(read(both)[1]) == [("assistant", "a"), ("assistant", "b")]
