"""Logs of requests and responses become one conversation in which nothing occurs twice and nothing
is lost."""

import json
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.http_recording.threads import create_dialect
from open_token.formats.shared.api_conversation import _MAX_PENDING_ANSWERS, ConversationBuilder
from open_token.model.document import Event
from open_token.registry import load_reader
from open_token.sources.source import Source

SYSTEM = {"role": "system", "content": "Be brief."}


def read_records(*records: Any, reader: str = "openai_chat", **options: Any) -> list[Event]:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    draft = Draft(**options)
    load_reader(reader).read(Source("log", data=lines.encode()), draft)
    return list(draft.finish(lambda: "0" * 64).events)


def texts(events: list[Event]) -> list[Any]:
    """What was said, and of annotations their data."""
    return [event["content"].get("text", event["content"].get("data")) for event in events]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def request(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **more}


def response(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": model(text), "finish_reason": "stop"}]}


def pair(asked: dict[str, Any], text: str) -> dict[str, Any]:
    return {"request": asked, "response": response(text)}


def test_each_request_adds_only_what_is_new() -> None:
    events = read_records(
        pair(request(SYSTEM, user("a")), "b"),
        pair(request(SYSTEM, user("a"), model("b"), user("c")), "d"),
        pair(request(SYSTEM, user("a"), model("b"), user("c"), model("d"), user("e")), "f"),
    )
    assert texts(events) == ["Be brief.", "a", "b", "c", "d", "e", "f"]


def test_requests_and_responses_on_lines_of_their_own() -> None:
    events = read_records(
        request(user("a")), response("b"), request(user("a"), model("b"), user("c")), response("d")
    )
    assert texts(events) == ["a", "b", "c", "d"]


def test_requests_without_responses() -> None:
    events = read_records(request(user("a")), request(user("a"), model("b"), user("c")))
    assert texts(events) == ["a", "b", "c"]


def test_the_copy_of_an_answer_may_be_trimmed() -> None:
    events = read_records(
        pair(request(user("a")), "b\n\n c "), request(user("a"), model("b c"), user("d"))
    )
    assert texts(events) == ["a", "b\n\n c ", "d"]


def test_another_conversation_stands_behind_an_annotation() -> None:
    events = read_records(pair(request(user("a")), "b"), pair(request(user("x")), "y"))
    assert texts(events) == ["a", "b", {"kind": "new_request"}, "x", "y"]


def test_a_retry_adds_only_its_answer() -> None:
    events = read_records(pair(request(user("a")), "b"), pair(request(user("a")), "c"))
    assert texts(events) == [
        "a",
        "b",
        {"kind": "new_request", "repeats": 1, "after": "evt_000001"},
        "c",
    ]


def test_an_edited_history_adds_only_what_differs() -> None:
    events = read_records(
        pair(request(user("a"), model("b"), user("c")), "d"),
        pair(request(user("a"), model("b"), user("C!")), "e"),
    )
    mark = {"kind": "new_request", "repeats": 2, "after": "evt_000002"}
    assert texts(events) == ["a", "b", "c", "d", mark, "C!", "e"]


def test_two_agents_that_take_turns() -> None:
    events = read_records(
        pair(request(SYSTEM, user("a")), "b"),
        pair(request(user("x")), "y"),
        pair(request(SYSTEM, user("a"), model("b"), user("c")), "d"),
        pair(request(user("x"), model("y"), user("z")), "0"),
    )
    assert texts(events) == [
        *("Be brief.", "a", "b", {"kind": "new_request"}, "x", "y"),
        *({"kind": "new_request", "repeats": 2, "after": "evt_000003"}, "c", "d"),
        *({"kind": "new_request", "repeats": 2, "after": "evt_000006"}, "z", "0"),
    ]


def test_the_same_question_to_another_agent_is_reported_again() -> None:
    other = {"role": "system", "content": "Be long."}
    events = read_records(
        pair(request(SYSTEM, user("a")), "b"), pair(request(other, user("a")), "c")
    )
    assert texts(events) == ["Be brief.", "a", "b", {"kind": "new_request"}, "Be long.", "a", "c"]


def test_a_system_prompt_that_changes_does_not_break_the_thread() -> None:
    later = {"role": "system", "content": "Be brief. It is noon."}
    events = read_records(
        pair(request(SYSTEM, user("a")), "b"),
        pair(request(later, user("a"), model("b"), user("c")), "d"),
    )
    assert texts(events) == ["Be brief.", "a", "b", "Be brief. It is noon.", "c", "d"]


def test_tools_are_reported_when_they_change() -> None:
    def tools(*names: str) -> list[Any]:
        return [{"type": "function", "function": {"name": name}} for name in names]

    events = read_records(
        pair(request(user("a"), tools=tools("f")), "b"),
        pair(request(user("a"), model("b"), user("c"), tools=tools("f")), "d"),
        pair(
            request(user("a"), model("b"), user("c"), model("d"), user("e"), tools=tools("f", "g")),
            "h",
        ),
    )
    names = [event["content"]["data"]["names"] for event in events if event["type"] == "annotation"]
    assert names == [["f"], ["f", "g"]]
    assert len(events) == 8


def test_records_under_other_names_and_in_wrappings() -> None:
    stream = 'data: {"choices":[{"index":0,"delta":{"content":"d"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    third = [user("a"), model("b"), user("c"), model("d"), user("e")]
    events = read_records(
        {
            "request_body": json.dumps(request(user("a"))),
            "response_body": json.dumps(response("b")),
        },
        {
            "req": {"method": "POST", "body": request(user("a"), model("b"), user("c"))},
            "res": {"status": 200, "body": {"string": stream}},
        },
        {**request(*third), "response": response("f")},
    )
    assert texts(events) == ["a", "b", "c", "d", "e", "f"]


def test_a_record_of_another_kind_is_noted() -> None:
    draft = Draft()
    lines = json.dumps(request(user("a"))) + "\n" + json.dumps({"level": "info"}) + "\n"
    load_reader("openai_chat").read(Source("log", data=lines.encode()), draft)
    record = draft.finish(lambda: "0" * 64)
    assert [(note.code, note.place) for note in record.notes] == [("unknown-record", "line 2")]


def test_a_reader_that_was_named_wrongly_notes_and_does_not_crash() -> None:
    for reader in ("openai_chat", "anthropic_messages", "openai_responses", "gemini_api"):
        draft = Draft()
        for record in (
            {"contents": [{"parts": [{"text": "a"}]}]},
            {"input": [], "model": "m"},
            {"request": {}},
        ):
            load_reader(reader).read(Source("log", data=json.dumps(record).encode()), draft)
        assert draft.finish(lambda: "0" * 64).notes


def test_deeply_nested_arguments_do_not_stop_the_reading() -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"a": deep})},
    }
    events = read_records(
        request(user("a"), {"role": "assistant", "content": None, "tool_calls": [call]})
    )
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result"]


def test_answers_without_requests_are_not_all_held() -> None:
    conversation = ConversationBuilder(create_dialect("openai_chat", Draft()), "record")
    for number in range(1000):
        conversation.add_record(number, response(f"answer {number}"))
    assert len(conversation._pending) <= 3 * _MAX_PENDING_ANSWERS
    assert conversation._last_request is None


def test_a_request_after_many_answers_goes_on_from_them() -> None:
    answers = [model(f"answer {number}") for number in range(250)]
    lines = [request(user("a")), *(response(answer["content"]) for answer in answers)]
    events = read_records(*lines, request(user("a"), *answers, user("b")))
    assert texts(events) == ["a", *(answer["content"] for answer in answers), "b"]
