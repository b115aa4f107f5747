"""The chat completions dialect: roles, parts, calls with and without ids, thoughts, choices, usage,
streams."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["openai_chat"]

read = build_read_function(READER)


def call(native_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": native_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def reply(message: dict[str, Any], finish: Any = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        "object": "chat.completion",
        "created": 1770000000,
        "model": "gpt-4o-2024-08-06",
        "choices": [choice],
        **more,
    }


def test_one_event_for_each_message_of_a_body() -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": ""},
    ]
    record, events = read({"model": "m", "messages": messages})
    assert [event["type"] for event in events] == ["message"] * 3
    assert [event["content"] for event in events] == [
        {"mime": "text/plain", "text": m["content"]} for m in messages
    ]
    assert record.conversation["source_runtime"] == "api"
    assert record.conversation["provider"] == "other"
    assert record.conversation["internal_availability"] == "unknown"
    assert "started_at" not in record.conversation
    assert [(who["kind"], who["name"]) for who in record.participants] == [
        ("human", "user"),
        ("model", "assistant"),
    ]
    assert record.participants[1]["model"] == "m"


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        *(
            ("gpt-4o", "openai"),
            ("o3-mini", "openai"),
            ("chatgpt-4o-latest", "openai"),
            ("openai/gpt-5", "openai"),
        ),
        *(("ft:gpt-4o:acme", "openai"), ("llama-3", "other"), ("gemini-2.5-pro", "other")),
    ],
)
def test_the_provider_is_reported_by_the_model(name: str, provider: str) -> None:
    record, _ = read({"model": name, "messages": [{"role": "assistant", "content": "x"}]})
    assert record.conversation["provider"] == record.participants[0]["provider"] == provider


def test_a_bare_list_names_no_provider() -> None:
    record, _ = read([{"role": "user", "content": "x"}])
    assert "provider" not in record.conversation


def test_roles_names_and_visibility() -> None:
    record, events = read(
        [
            {"role": "system", "content": "s"},
            {"role": "developer", "content": "d"},
            {"role": "user", "name": "Ines", "content": "u"},
            {"role": "assistant", "name": "Pilot", "content": "a"},
        ]
    )
    assert [(event["role"], event["visibility"]) for event in events] == [
        *(
            ("system", "internal"),
            ("developer", "internal"),
            ("user", "public"),
            ("assistant", "public"),
        ),
    ]
    assert [who["name"] for who in record.participants] == ["system", "Ines", "Pilot"]


def test_parts() -> None:
    picture = {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
    }
    sound = {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}
    paper = {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}}
    text = {"type": "text", "text": "see"}
    record, events = read(
        [
            {"role": "user", "content": [text]},
            {"role": "user", "content": [text, picture, sound, paper]},
        ]
    )
    assert summarize_events(events)[0] == ("user", "see")
    blocks = events[1]["content"]["data"]
    assert blocks[0] == text
    assert (
        blocks[1]["type"],
        blocks[1]["media_type"],
        blocks[1]["base64"],
        blocks[1]["detail"],
    ) == (
        "image",
        "image/png",
        PNG,
        "low",
    )
    assert (blocks[2]["type"], blocks[2]["media_type"], blocks[2]["bytes"]) == (
        "audio",
        "audio/wav",
        9,
    )
    assert blocks[3] == {"type": "file", "filename": "a.pdf", "file_id": "file-1"}
    assert record.notes == []


def test_an_unknown_part_is_kept_and_noted() -> None:
    odd = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    lines = [{"role": "user", "content": "x"}] * 70 + [{"role": "user", "content": [odd]}]
    record, events = read("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert events[-1]["content"]["data"] == [odd]
    assert [(note.code, note.place) for note in record.notes] == [("unknown-part", "line 71")]


def test_calls_and_results_are_paired_by_id() -> None:
    _, events = read(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("a", "f", '{"x": 1}'), call("b", "g", "[2]")],
            },
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "one"}]},
        ]
    )
    assert summarize_events(events) == [
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}, "native_call_id": "a"}),
        ("assistant", {"tool_name": "g", "arguments": [2], "native_call_id": "b"}),
        ("tool", "two"),
        ("tool", "one"),
    ]
    assert [event["links"]["call_id"][-1] for event in events] == ["1", "2", "2", "1"]


def test_empty_ids_are_paired_by_order() -> None:
    _, events = read(
        [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [call("", "f", "{}"), call("", "g", "{}"), call("", "f", "{}")],
            },
            {"role": "tool", "tool_call_id": "", "content": "first"},
            {"role": "tool", "tool_call_id": "", "name": "f", "content": "third"},
            {"role": "tool", "tool_call_id": "", "content": "second"},
        ]
    )
    assert [event["links"]["call_id"][-1] for event in events] == ["1", "2", "3", "1", "3", "2"]


def test_ids_that_a_client_invented_later_are_paired_by_order() -> None:
    asked = {"role": "user", "content": "q"}
    first = {
        "request": {"model": "m", "messages": [asked]},
        "response": reply({"content": "", "tool_calls": [call("", "f", "{}")]}),
    }
    copy = {"role": "assistant", "content": None, "tool_calls": [call("made-up", "f", "{}")]}
    result = {"role": "tool", "tool_call_id": "made-up", "content": "r"}
    _, events = read(
        [
            first,
            {
                "request": {"model": "m", "messages": [asked, copy, result]},
                "response": reply({"content": "ok"}),
            },
        ]
    )
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result", "message"]


@pytest.mark.parametrize("text", ['{"city": ', "", "7", '"word"'])
def test_arguments_that_are_no_object_stay_as_they_are(text: str) -> None:
    _, events = read([{"role": "assistant", "content": None, "tool_calls": [call("a", "f", text)]}])
    assert events[0]["content"]["data"]["arguments"] == {"raw": text}
    assert events[1]["content"]["data"] == {"missing_result": True}


def test_legacy_functions_and_custom_tools() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    _, events = read(
        [
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            {"role": "function", "name": "f", "content": "done"},
            {"role": "assistant", "content": None, "tool_calls": [custom]},
        ]
    )
    assert summarize_events(events)[:2] == [
        ("assistant", {"tool_name": "f", "arguments": {}}),
        ("tool", "done"),
    ]
    assert events[2]["content"]["data"]["arguments"] == {"input": "ls"}


def test_a_result_without_a_call_stays() -> None:
    _, events = read([{"role": "tool", "tool_call_id": "gone", "content": "lost"}])
    assert summarize_events(events)[0] == ("tool", "lost")
    assert events[1]["content"]["data"]["kind"] == "orphan_result"


@pytest.mark.parametrize(
    ("message", "thought"),
    [
        ({"content": "a", "reasoning_content": "t"}, {"mime": "text/plain", "text": "t"}),
        ({"content": "a", "reasoning": "t"}, {"mime": "text/plain", "text": "t"}),
        (
            {"content": "a", "reasoning_details": [{"type": "reasoning.text", "text": "t"}]},
            {"mime": "text/plain", "text": "t"},
        ),
        (
            {"content": "a", "reasoning_details": [{"type": "reasoning.summary", "summary": "t"}]},
            {"mime": "text/plain", "text": "t", "data": {"summary": "runtime"}},
        ),
        (
            {"content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
            {"mime": "application/json", "data": {"redacted": True, "encrypted": True}},
        ),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
                    {"type": "text", "text": "a"},
                ]
            },
            {"mime": "text/plain", "text": "t"},
        ),
    ],
)
def test_thoughts_of_compatible_servers(message: dict[str, Any], thought: dict[str, Any]) -> None:
    record, events = read(reply(message))
    assert [event["role"] for event in events] == ["assistant_thought", "assistant"]
    assert events[0]["content"] == thought
    assert events[1]["content"]["text"] == "a"
    assert record.conversation["internal_availability"] == "available"


def test_usage_counts_everything_once_and_not_on_a_thought() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    message = {"content": "a", "reasoning": "t", "tool_calls": [call("a", "f", "{}")]}
    _, events = read(reply(message, "tool_calls", usage=usage))
    expected = tokens(input_tokens=10, output_tokens=7, reasoning_tokens=5, cache_read_tokens=4)
    assert [event.get("usage") for event in events] == [None, expected, None, None]


def test_thoughts_that_a_server_left_out_of_the_sum_are_added() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "total_tokens": 17,
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    record, events = read(reply({"content": "a"}, usage=usage))
    assert events[0]["usage"]["output_tokens"] == 7
    assert record.conversation["internal_availability"] == "unavailable"


def test_usage_of_an_empty_answer_stands_alone() -> None:
    _, events = read(reply({"content": None}, usage={"prompt_tokens": 1, "completion_tokens": 0}))
    assert [(event["type"], event["usage"]["input_tokens"]) for event in events] == [
        ("annotation", 1)
    ]


def test_the_time_of_a_response() -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    record, events = read({"request": asked, "response": reply({"content": "a"})})
    assert [event.get("ts") for event in events] == [None, "2026-02-02T02:40:00Z"]
    assert record.conversation["started_at"] == "2026-02-02T02:40:00Z"
    asked["messages"].append({"role": "assistant", "content": "earlier"})
    record, _ = read({"request": asked, "response": reply({"content": "a"})})
    assert "started_at" not in record.conversation


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_unusual_end_is_reported(finish: str) -> None:
    _, events = read(reply({"content": "a"}, finish))
    assert events[1]["content"]["data"] == {"kind": "message_facts", "finish_reason": finish}
    assert events[1]["links"] == {"parent_id": events[0]["id"]}


def test_refusals_citations_and_errors() -> None:
    _, events = read(reply({"content": None, "refusal": "no"}))
    assert summarize_events(events) == [
        ("assistant", "no"),
        ("annotation", {"kind": "message_facts", "refusal": True}),
    ]
    _, events = read(reply({"content": "a", "annotations": [{"type": "url_citation"}]}))
    assert events[1]["content"]["data"]["citations"] == [{"type": "url_citation"}]
    asked = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    _, events = read({"request": asked, "response": {"error": {"code": "rate_limit", "kind": "x"}}})
    assert events[1]["content"]["data"] == {
        "kind": "error",
        "error": {"code": "rate_limit", "kind": "x"},
    }


def two_choices() -> dict[str, Any]:
    body = reply({"content": "heads", "tool_calls": [call("a", "f", "{}")]}, "tool_calls")
    other = {"role": "assistant", "content": "tails", "tool_calls": [call("b", "f", "{}")]}
    body["choices"].append({"index": 1, "message": other, "finish_reason": "tool_calls"})
    return body


def test_other_choices_are_dropped() -> None:
    _, events = read(two_choices())
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result"]
    assert events[0]["content"]["text"] == "heads"


def test_other_choices_stand_in_a_span() -> None:
    _, events = read(two_choices(), branches="all")
    assert [event["type"] for event in events] == [
        *("message", "tool_use", "tool_result"),
        *("span_start", "message", "tool_use", "tool_result", "span_end"),
    ]
    assert all("span_id" in event["links"] for event in events[3:])
    assert not any("span_id" in event.get("links", {}) for event in events[:3])
    assert events[2]["links"]["call_id"] == events[1]["links"]["call_id"]


def chunk(
    delta: dict[str, Any], finish: str | None = None, native_id: str = "s", index: int = 0
) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {
        "id": native_id,
        "object": "chat.completion.chunk",
        "created": 1770000000,
        "model": "gpt-4o",
        "choices": [choice],
    }


def part(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": index, "function": function, **more}]}


STREAM = [
    chunk({"role": "assistant", "content": "", "reasoning_content": "hm"}),
    chunk({"reasoning_content": "m"}),
    chunk({"content": "let "}),
    chunk({"content": "me see"}),
    chunk(part(0, '{"x"', id="a", name="f")),
    chunk(part(1, "{}", id="b", name="g")),
    chunk(part(0, ": 1}")),
    chunk({}, "tool_calls"),
    {
        "id": "s",
        "object": "chat.completion.chunk",
        "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    },
]


@pytest.mark.parametrize("form", ["events", "lines", "list", "pair"])
def test_a_saved_stream_in_every_form(form: str) -> None:
    if form == "events":
        data: Any = (
            "".join(f"data: {json.dumps(one)}\n\n" for one in STREAM).encode() + b"data: [DONE]\n\n"
        )
    elif form == "lines":
        data = "".join(json.dumps(one) + "\n" for one in STREAM).encode()
    else:
        data = STREAM if form == "list" else {"response": STREAM}
    record, events = read(data)
    assert summarize_events(events) == [
        ("assistant_thought", "hmm"),
        ("assistant", "let me see"),
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}, "native_call_id": "a"}),
        ("assistant", {"tool_name": "g", "arguments": {}, "native_call_id": "b"}),
        ("tool", {"missing_result": True}),
        ("tool", {"missing_result": True}),
    ]
    assert events[1]["usage"] == tokens(input_tokens=3, output_tokens=4)
    assert events[1]["ts"] == record.conversation["started_at"] == "2026-02-02T02:40:00Z"


def test_two_streams_are_two_answers() -> None:
    first = [chunk({"content": "a"}, "stop", "one"), chunk({"content": "b"}, "stop", "two")]
    assert summarize_events(read(first)[1]) == [("assistant", "a"), ("assistant", "b")]
    nameless = [chunk({"role": "assistant", "content": text}, "stop", "") for text in "ab"]
    assert summarize_events(read(nameless)[1]) == [("assistant", "a"), ("assistant", "b")]


def test_a_stream_that_broke_off_says_so() -> None:
    _, events = read([chunk({"content": "half a sen"})])
    assert summarize_events(events) == [
        ("assistant", "half a sen"),
        ("annotation", {"kind": "message_facts", "broke_off": True}),
    ]


def test_calls_with_the_same_index_are_reported_apart_by_id() -> None:
    _, events = read(
        [
            chunk(part(0, "{}", id="a", name="f")),
            chunk(part(0, "{}", id="b", name="g")),
            chunk({}, "stop"),
        ]
    )
    assert [
        event["content"]["data"]["tool_name"] for event in events if event["type"] == "tool_use"
    ] == ["f", "g"]


def test_messages_with_times_of_their_own() -> None:
    _, events = read([{"role": "user", "content": "x", "timestamp": "2026-01-01T10:00:00+01:00"}])
    assert events[0]["ts"] == "2026-01-01T09:00:00Z"


def test_a_message_without_anything_is_noted() -> None:
    record, events = read(
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": None}]
    )
    assert len(events) == 1
    assert [(note.code, note.place) for note in record.notes] == [("empty-message", "record 2")]
