"""The Responses API: instructions, input in both forms, deltas, references, usage, unfinished
answers, streams."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["openai_responses"]

read = build_read_function(READER)


def said(words: str, native_id: str = "msg_1") -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": []}
    return {
        "type": "message",
        "id": native_id,
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def call(name: str, native_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{native_id}",
        "call_id": native_id,
        "name": name,
        "arguments": arguments,
    }


def result(native_id: str, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": native_id, "output": output}


def reply(*output: Any, **more: Any) -> dict[str, Any]:
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1770000000,
        "status": "completed",
        "model": "gpt-5-2025",
    }
    return {**body, "output": list(output), **more}


def test_a_pair() -> None:
    request = {
        "model": "gpt-5",
        "instructions": "brief",
        "input": "hi",
        "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
    }
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
    }
    record, events = read({"request": request, "response": reply(thought, said("yo"), usage=usage)})
    assert summarize_events(events) == [
        ("system", "brief"),
        ("annotation", {"kind": "tools", "names": ["f", "web_search"]}),
        ("user", "hi"),
        ("assistant_thought", "hm"),
        ("assistant", "yo"),
    ]
    spent = tokens(input_tokens=9, output_tokens=7, reasoning_tokens=5, cache_read_tokens=4)
    assert [event.get("usage") for event in events[3:]] == [None, spent]
    assert events[4]["ts"] == record.conversation["started_at"] == "2026-02-02T02:40:00Z"
    assert record.conversation["provider"] == "openai"
    assert record.participants[-1]["model"] == "gpt-5-2025"


def test_a_response_alone_brings_its_instructions() -> None:
    assert summarize_events(read(reply(said("yo"), instructions="brief"))[1]) == [
        ("system", "brief"),
        ("assistant", "yo"),
    ]


def test_several_messages_in_one_answer() -> None:
    first, last = said("I look it up.", "msg_1"), said("Done.", "msg_2")
    _, events = read(
        {"request": {"input": "hi"}, "response": reply(first | {"phase": "commentary"}, last)}
    )
    assert summarize_events(events) == [
        ("user", "hi"),
        ("assistant", "I look it up."),
        ("assistant", "Done."),
    ]


def test_requests_that_repeat_their_history() -> None:
    asked = {"role": "user", "content": "q"}
    thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    first = {
        "request": {"model": "m", "input": [asked]},
        "response": reply(thought, call("f", "c1")),
    }
    copy = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{ }"}
    second = {
        "request": {"model": "m", "input": [asked, thought, copy, result("c1", "r")]},
        "response": reply(said("ok")),
    }
    third = {
        "request": {
            "model": "m",
            "input": [
                asked,
                copy,
                result("c1", "r"),
                said("ok"),
                {"role": "user", "content": "more"},
            ],
        }
    }
    _, events = read([first, second, third])
    assert summarize_events(events) == [
        ("user", "q"),
        ("assistant_thought", {"redacted": True, "encrypted": True}),
        ("assistant", {"tool_name": "f", "arguments": {}, "native_call_id": "c1"}),
        ("tool", "r"),
        ("assistant", "ok"),
        ("user", "more"),
    ]


@pytest.mark.parametrize(
    "link",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_7"},
        {"conversation": {"id": "conv_7"}},
    ],
)
def test_requests_that_hold_only_what_is_new(link: dict[str, Any]) -> None:
    same = {"role": "user", "content": "again"}
    record, events = read(
        [
            {"request": {"model": "m", "input": [same]}, "response": reply(said("one"))},
            {"request": {"model": "m", "input": [same], **link}, "response": reply(said("two"))},
        ]
    )
    assert summarize_events(events) == [
        ("user", "again"),
        ("assistant", "one"),
        ("user", "again"),
        ("assistant", "two"),
    ]
    assert ("conversation" in link) == (record.conversation["id"] == "conv_7")


@pytest.mark.parametrize("native_id", ["c1", "fc_c1", "c1|fc_c1"])
def test_results_under_either_id_of_their_call(native_id: str) -> None:
    first = {"request": {"model": "m", "input": "q"}, "response": reply(call("f", "c1"))}
    second = {
        "request": {
            "model": "m",
            "previous_response_id": "resp_1",
            "input": [result(native_id, "r")],
        }
    }
    _, events = read([first, second])
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result"]
    assert events[1]["links"]["call_id"] == events[2]["links"]["call_id"]


def test_references_to_items_that_were_reported() -> None:
    first = {"request": {"model": "m", "input": "q"}, "response": reply(said("one", "msg_9"))}
    known, unknown = (
        {"type": "item_reference", "id": "msg_9"},
        {"type": "item_reference", "id": "msg_0"},
    )
    more = [{"role": "user", "content": "q"}, known, {"role": "user", "content": "r"}, unknown]
    record, events = read([first, {"request": {"model": "m", "input": more}}])
    assert summarize_events(events) == [("user", "q"), ("assistant", "one"), ("user", "r")]
    assert [note.code for note in record.notes] == ["item-reference"]


def test_a_list_of_items() -> None:
    record, events = read(
        [
            {"role": "user", "content": "q"},
            call("f", "c", '{"x": 1}'),
            result("c", '{"y": 2}'),
            said("done"),
        ]
    )
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result", "message"]
    assert "started_at" not in record.conversation


def test_an_answer_that_was_cut() -> None:
    body = reply(
        said("half"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    facts = {"kind": "message_facts", "status": "incomplete", "reason": "max_output_tokens"}
    assert summarize_events(read(body)[1]) == [("assistant", "half"), ("annotation", facts)]


def test_an_answer_that_failed() -> None:
    body = reply(
        status="failed", error={"code": "server_error", "message": "no"}, usage={"input_tokens": 3}
    )
    reported = summarize_events(read(body)[1])
    assert reported == [
        ("annotation", {"kind": "usage"}),
        ("annotation", {"kind": "message_facts", "status": "failed"}),
        ("annotation", {"kind": "error", "error": {"code": "server_error", "message": "no"}}),
    ]


def test_thoughts_that_were_counted_but_not_given() -> None:
    record, _ = read(
        reply(
            said("x"), usage={"output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 4}}
        )
    )
    assert record.conversation["internal_availability"] == "unavailable"


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


STREAM = [
    event("created", response={**reply(), "status": "in_progress"}),
    event(
        "output_item.added", output_index=0, item={"type": "reasoning", "id": "rs", "summary": []}
    ),
    event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="h"),
    event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="m"),
    event("output_item.added", output_index=1, item={**call("f", "c"), "arguments": ""}),
    event("function_call_arguments.delta", output_index=1, delta='{"x"'),
    event("function_call_arguments.delta", output_index=1, delta=": 1}"),
    event("output_item.done", output_index=1, item=call("f", "c", '{"x": 1}')),
    event(
        "output_item.added",
        output_index=2,
        item={**said(""), "content": [], "status": "in_progress"},
    ),
    event("output_text.delta", output_index=2, content_index=0, delta="half "),
    event("output_text.delta", output_index=2, content_index=0, delta="a wo"),
]
WHOLE = [
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
    call("f", "c", '{"x": 1}'),
    said("half a word"),
]


def as_form(chunks: list[Any], form: str) -> Any:
    if form == "events":
        return "".join(
            f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in chunks
        ).encode()
    if form == "lines":
        return "".join(json.dumps(one) + "\n" for one in chunks).encode()
    return (
        chunks if form == "list" else {"request": {"model": "m", "input": []}, "response": chunks}
    )


@pytest.mark.parametrize("form", ["events", "lines", "list", "pair"])
def test_a_saved_stream_in_every_form(form: str) -> None:
    done = event("completed", response=reply(*WHOLE, usage={"input_tokens": 3, "output_tokens": 4}))
    _, events = read(as_form([*STREAM, done], form))
    assert summarize_events(events) == [
        ("assistant_thought", "hm"),
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}, "native_call_id": "c"}),
        ("tool", {"missing_result": True}),
        ("assistant", "half a word"),
    ]
    assert events[1]["usage"] == tokens(input_tokens=3, output_tokens=4)


def test_the_last_event_may_leave_the_output_out() -> None:
    items = [event("output_item.done", output_index=n, item=item) for n, item in enumerate(WHOLE)]
    _, events = read([STREAM[0], *items, event("completed", response=reply())])
    assert [one["type"] for one in events] == ["message", "tool_use", "tool_result", "message"]


def test_a_stream_that_broke_off_is_built_from_its_pieces() -> None:
    _, events = read(STREAM)
    assert summarize_events(events) == [
        ("assistant_thought", "hm"),
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}, "native_call_id": "c"}),
        ("tool", {"missing_result": True}),
        ("assistant", "half a wo"),
        ("annotation", {"kind": "message_facts", "status": "in_progress"}),
    ]


def test_pieces_without_the_events_before_them() -> None:
    pieces = [
        event("output_text.delta", output_index=0, content_index=10**12, delta="late "),
        STREAM[10],
    ]
    assert summarize_events(read(pieces)[1]) == [("assistant", "late "), ("assistant", "a wo")]


def test_two_streams_are_two_answers() -> None:
    done = [event("completed", response=reply(said(words))) for words in ("a", "b")]
    assert summarize_events(read([STREAM[0], done[0], STREAM[0], done[1]])[1]) == [
        ("assistant", "a"),
        ("assistant", "b"),
    ]


@pytest.mark.parametrize("keeps_history", [True, False])
def test_straight_quotes_around_a_compaction_repeat_no_answer(keeps_history: bool) -> None:
    """The stream has typographic quotes, and the next request has straight ones."""
    seal = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}

    def stream(*output: Any) -> list[Any]:
        items = [
            event("output_item.done", output_index=number, item=item)
            for number, item in enumerate(output)
        ]
        return [STREAM[0], *items, event("completed", response=reply(*output))]

    first = {"role": "user", "content": "Whose bees?"}
    history = [first, {"role": "assistant", "content": "It's the \"keeper's\"."}]
    second = [*history, {"role": "user", "content": "And the honey?"}]
    compacted = [seal, {"role": "assistant", "content": "The keeper's son's..."}]
    third = [*(second if keeps_history else []), *compacted, {"role": "user", "content": "Why?"}]
    _, events = read(
        [
            {
                "request": {"model": "m", "input": [first]},
                "response": stream(said("It\u2019s the \u201ckeeper\u2019s\u201d.", "msg_1")),
            },
            {
                "request": {"model": "m", "input": second},
                "response": stream(seal, said("The keeper\u2019s son\u2019s\u2026", "msg_2")),
            },
            {
                "request": {"model": "m", "input": third},
                "response": stream(said("He\u2019s the heir.", "msg_3")),
            },
        ]
    )
    messages = [pair for pair in summarize_events(events) if pair[0] in ("user", "assistant")]
    assert messages == [
        ("user", "Whose bees?"),
        ("assistant", "It\u2019s the \u201ckeeper\u2019s\u201d."),
        ("user", "And the honey?"),
        ("assistant", "The keeper\u2019s son\u2019s\u2026"),
        ("user", "Why?"),
        ("assistant", "He\u2019s the heir."),
    ]
    kinds = [one["content"]["data"]["kind"] for one in events if one["type"] == "annotation"]
    assert kinds == ["compaction"]
