"""Amazon Bedrock Converse: blocks, tools of the server, streams, invocation logs, broken bodies."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["bedrock_converse"]

read = build_read_function(READER)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def reply(*blocks: Any, **more: Any) -> dict[str, Any]:
    usage = {"inputTokens": 3, "outputTokens": 2}
    return {
        "output": {"message": assistant(*blocks)},
        "stopReason": "end_turn",
        "usage": usage,
        **more,
    }


def delta(index: int, **value: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": value}}


def log(**fields: Any) -> dict[str, Any]:
    return {"schemaType": "ModelInvocationLog", "operation": "Converse", "modelId": "m", **fields}


def test_a_repeated_history_is_exported_once() -> None:
    first = user({"text": "hi"})
    answer = reply({"text": "yo"})
    again = {"messages": [first, assistant({"text": "yo"}), user({"text": "more"})]}
    record, events = read(
        [
            {"request": {"modelId": "m", "messages": [first]}, "response": answer},
            {"request": {"modelId": "m", **again}, "response": reply({"text": "done"})},
        ]
    )
    assert summarize_events(events) == [
        ("user", "hi"),
        ("assistant", "yo"),
        ("user", "more"),
        ("assistant", "done"),
    ]
    assert events[1]["usage"] == tokens(input_tokens=3, output_tokens=2)
    assert record.notes == []


def test_cached_input_is_part_of_the_input() -> None:
    usage = {"inputTokens": 5, "outputTokens": 1, "cacheReadInputTokens": 70}
    usage["cacheWriteInputTokens"] = 9
    _, events = read(reply({"text": "yo"}, usage=usage))
    assert events[0]["usage"] == tokens(
        input_tokens=84, output_tokens=1, cache_read_tokens=70, cache_write_tokens=9
    )


def test_a_tool_of_the_server_is_paired() -> None:
    call = {"toolUseId": "a", "name": "code", "input": {"x": 1}, "type": "server_tool_use"}
    result = {"toolUseId": "a", "content": [{"json": {"out": "2"}}], "type": "code_result"}
    _, events = read(reply({"toolUse": call}, {"toolResult": result}, {"text": "two"}))
    assert [event["type"] for event in events] == ["tool_use", "tool_result", "message"]
    assert events[0]["content"]["data"]["native_type"] == "server_tool_use"
    assert events[1]["content"]["data"] == {"out": "2"}


def test_citations_of_a_stream() -> None:
    _, events = read(
        [
            {"messageStart": {"role": "assistant"}},
            delta(0, text="As the "),
            delta(0, text="plan says."),
            delta(0, citation={"title": "Plan"}),
            {"messageStop": {"stopReason": "end_turn"}},
        ]
    )
    assert summarize_events(events) == [
        ("assistant", "As the plan says."),
        ("annotation", {"kind": "message_facts", "citations": [{"title": "Plan"}]}),
    ]


def test_a_stream_that_broke_off_is_marked() -> None:
    _, events = read([{"messageStart": {"role": "assistant"}}, delta(0, text="The wat")])
    assert summarize_events(events) == [
        ("assistant", "The wat"),
        ("annotation", {"kind": "message_facts", "broke_off": True}),
    ]


def test_unknown_deltas_are_kept() -> None:
    record, events = read(
        [
            {"messageStart": {"role": "assistant"}},
            delta(0, text="see"),
            delta(1, hologram={"words": "in the air"}),
            {"messageStop": {"stopReason": "end_turn"}},
        ]
    )
    assert "in the air" in json.dumps(events[0]["content"])
    assert [note.code for note in record.notes] == ["unknown-part"]


def test_media_keep_name_and_place() -> None:
    image = {"image": {"format": "png", "source": {"bytes": PNG}}}
    page = {"document": {"name": "Notes", "format": "docx", "source": {"text": "plain words"}}}
    film = {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}}
    _, events = read([user({"text": "look"}, image, page, film)])
    blocks = events[0]["content"]["data"]
    assert blocks[1]["media_type"] == "image/png"
    assert blocks[2] == {
        "type": "file",
        "filename": "Notes",
        "format": "docx",
        "text": "plain words",
    }
    assert blocks[3] == {"type": "video", "media_type": "video/mp4", "url": "s3://b/k"}


def test_an_error_in_the_place_of_an_answer() -> None:
    request = {"modelId": "m", "messages": [user({"text": "hi"})]}
    _, events = read({"request": request, "response": {"message": "The model is not known."}})
    assert summarize_events(events) == [
        ("user", "hi"),
        ("annotation", {"kind": "error", "error": {"message": "The model is not known."}}),
    ]


def test_an_invocation_log_gives_model_and_time() -> None:
    body = {"messages": [user({"text": "hi"})]}
    record, events = read(
        log(
            timestamp="2026-01-02T03:04:05Z",
            modelId="anthropic.claude-x",
            input={"inputBodyJson": body},
            output={"outputBodyJson": reply({"text": "yo"})},
        )
    )
    assert record.conversation["started_at"] == events[1]["ts"] == "2026-01-02T03:04:05Z"
    assert record.conversation["provider"] == "anthropic"
    assert any(person.get("model") == "anthropic.claude-x" for person in record.participants)


def test_a_log_of_another_operation_is_read_by_the_reader_of_its_bodies() -> None:
    request = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    request["anthropic_version"] = "bedrock-2023-05-31"
    answer = {"type": "message", "role": "assistant", "stop_reason": "end_turn"}
    answer["content"] = [{"type": "text", "text": "yo"}]
    entry = log(input={"inputBodyJson": request}, output={"outputBodyJson": answer})
    source = Source("x", data=json.dumps({**entry, "operation": "InvokeModel"}).encode())
    assert detect_format(source) == "anthropic_messages"


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "hi"}],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "user", "content": [{"text": "hi", "id": 3}]}],
        [{"role": "tool", "content": [{"text": "hi"}]}],
        {"messages": [], "system": []},
        {"output": {"message": "hi"}, "stopReason": "end_turn"},
        {"metadata": {"title": "a page"}},
        {"schemaType": "ModelInvocationLog", "operation": "InvokeModel"},
        {"messageStop": "now"},
    ],
)
def test_other_values_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        log(input={"inputBodyJson": {"messages": [user({"text": "x"}), 3, None], "system": 3}}),
        reply({"toolUse": 3}, {"toolResult": None}, {"text": None}, {}, None),
        reply({"toolResult": {"content": "plain"}}, {"reasoningContent": {}}),
        reply(usage={"inputTokens": "many", "outputTokens": -1}),
        [{"messageStart": {}}, delta(0, toolUse={"input": 4}), {"contentBlockDelta": {}}],
        log(input=3, output=[]),
        log(input={"inputBodyJson": "{"}, output={"outputBodyJson": [3]}),
    ],
)
def test_broken_bodies_do_no_harm(value: Any) -> None:
    read(value)
