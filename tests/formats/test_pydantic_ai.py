"""Messages of Pydantic AI: every kind of part, retries, files, usage of old and new names, hostile
shapes."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, lines, notes_of, paired
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["pydantic_ai"]

read = build_read_function(READER)


def request(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "request", "parts": [*parts], **more}


def response(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "response", "parts": [*parts], **more}


def part(kind: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"part_kind": kind, "content": content, **more}


USER = request(part("user-prompt", "hi"))


@pytest.mark.parametrize(
    "value", [[USER], {"messages": [USER]}, lines(USER, response()), lines([USER], [USER]), USER]
)
def test_claims(value: Any) -> None:
    assert claimed(value) == "pydantic_ai"


@pytest.mark.parametrize(
    "value",
    [
        [{"kind": "request", "parts": [{"text": "x"}]}],
        [{"kind": "other", "parts": []}],
        {"messages": []},
    ],
)
def test_leaves_to_others(value: Any) -> None:
    assert not READER.sniff(Source("input", data=json.dumps(value).encode()))


def test_instructions_are_reported_when_they_change() -> None:
    one, two = (request(part("user-prompt", "q"), instructions=words) for words in ("one", "two"))
    _, events = read([one, one, two])
    assert [text for role, text in summarize_events(events) if role == "system"] == ["one", "two"]


def test_arguments_are_text_or_an_object() -> None:
    calls = [
        {"part_kind": "tool-call", "tool_name": "f", "args": args, "tool_call_id": str(n)}
        for n, args in enumerate(('{"a": 1}', {"a": 1}, None, "no json"))
    ]
    _, events = read([response(*calls)])
    given = [
        event["content"]["data"]["arguments"] for event in events if event["type"] == "tool_use"
    ]
    assert given == [{"a": 1}, {"a": 1}, {}, {"raw": "no json"}]
    paired(events)


def test_a_retry_is_the_failed_result_of_its_call_or_words_of_the_runtime() -> None:
    call = {"part_kind": "tool-call", "tool_name": "f", "args": "{}", "tool_call_id": "1"}
    again = part("retry-prompt", "wrong", tool_name="f", tool_call_id="1")
    record, events = read(
        [response(call), request(again, part("retry-prompt", [{"msg": "bad"}], tool_call_id="x"))]
    )
    assert summarize_events(events)[1] == ("tool", "wrong")
    assert notes_of(events, "result_facts") == [{"is_error": True, "retry": True}]
    assert (events[3]["role"], events[3]["visibility"]) == ("user", "internal")
    assert events[3]["content"]["data"] == [{"msg": "bad"}]
    assert record.participants[-1]["kind"] == "system"


def test_a_denied_call_and_a_failed_one() -> None:
    returned = [
        part("tool-return", "x", tool_name="f", tool_call_id=n, outcome=o)
        for n, o in (("1", "denied"), ("2", "failed"))
    ]
    calls = [
        {"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": n}
        for n in ("1", "2")
    ]
    _, events = read([response(*calls), request(*returned)])
    assert notes_of(events, "result_facts") == [
        {"outcome": "denied"},
        {"outcome": "failed", "is_error": True},
    ]


def test_since_version_2_a_retry_answers_its_call_and_feedback_is_of_the_runtime() -> None:
    call = {"part_kind": "tool-call", "tool_name": "f", "args": "{}", "tool_call_id": "1"}
    again = part(
        "tool-return",
        "wrong",
        tool_name="f",
        tool_call_id="1",
        outcome="retried",
        retry={"attempt": 1},
    )
    record, events = read(
        [response(call), request(again, part("retry-feedback", [{"msg": "bad"}]))]
    )
    facts = {"outcome": "retried", "is_error": True, "retry": {"attempt": 1}}
    assert notes_of(events, "result_facts") == [facts]
    assert (events[3]["role"], events[3]["visibility"]) == ("user", "internal")
    assert events[3]["content"]["data"] == [{"msg": "bad"}]
    assert not record.notes


def test_what_other_models_failed_at_is_counted_as_theirs() -> None:
    tried = {
        "model_name": "gpt-5-mini",
        "outcome": "rejected",
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    record, events = read(
        [response(part("text", "x"), model_name="gpt-5", failed_attempts=[tried, 5])]
    )
    assert notes_of(events, "model_fallback") == [{"outcome": "rejected"}]
    assert events[0].get("usage") == tokens(input_tokens=7, output_tokens=1)
    models = {
        participant["actor_id"]: participant.get("model") for participant in record.participants
    }
    assert [models[event["actor_id"]] for event in events] == ["gpt-5-mini", "gpt-5"]


def test_what_is_spoken_is_said() -> None:
    sound = {"kind": "binary", "media_type": "audio/wav", "data": "UklGRg=="}
    asked = {"part_kind": "speech", "speaker": "user", "transcript": "hello", "audio": None}
    answer = {"part_kind": "speech", "speaker": "assistant", "transcript": None, "audio": sound}
    record, events = read([request(asked), response(answer)])
    assert summarize_events(events[:1]) == [("user", "hello")]
    assert (events[1]["role"], events[1]["content"]["data"][0]["type"]) == ("assistant", "audio")
    assert not record.notes


def test_instructions_that_a_baseline_repeats_are_reported_once() -> None:
    blocks = [{"part_kind": "instruction", "content": words} for words in ("known", "other")]
    _, events = read(
        [
            request(
                {"part_kind": "instruction-baseline", "instructions": blocks},
                instructions="is known",
            )
        ]
    )
    assert summarize_events(events) == [("system", "is known"), ("system", "other")]


def test_files_in_prompts_answers_and_results() -> None:
    picture = {"kind": "binary", "media_type": "image/png", "data": PNG}
    paper = {"kind": "uploaded-file", "file_id": "f", "provider_name": "openai"}
    call = {"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": "1"}
    _, events = read(
        [
            request(
                part(
                    "user-prompt",
                    [
                        "a",
                        picture,
                        paper,
                        {"kind": "text", "content": "b"},
                        {"kind": "cache-point"},
                    ],
                )
            ),
            response(part("file", picture), call),
            request(part("tool-return", [picture, "text"], tool_name="f", tool_call_id="1")),
        ]
    )
    kinds = [block["type"] for block in events[0]["content"]["data"]]
    assert kinds == ["text", "image", "file", "text"]
    assert events[1]["content"]["data"][0]["bytes"] == 9
    assert events[3]["content"]["data"][0]["media_type"] == "image/png"
    assert events[3]["content"]["data"][1] == "text"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"input_tokens": 5, "output_tokens": 2, "cache_read_tokens": 4},
            {"input_tokens": 5, "output_tokens": 2, "cache_read_tokens": 4},
        ),
        (
            {"request_tokens": 5, "response_tokens": 2, "total_tokens": 7},
            {"input_tokens": 5, "output_tokens": 2},
        ),
        (
            {
                "request_tokens": 5,
                "response_tokens": 2,
                "total_tokens": 10,
                "details": {"thoughts_tokens": 3},
            },
            {"input_tokens": 5, "output_tokens": 5, "reasoning_tokens": 3},
        ),
        (
            {"input_tokens": 5, "output_tokens": 2, "output_reasoning_tokens": 1, "details": {}},
            {"input_tokens": 5, "output_tokens": 2, "reasoning_tokens": 1},
        ),
        ({"input_tokens": 5, "output_reasoning_tokens": 0}, {"input_tokens": 5}),
        ({"input_tokens": "5"}, None),
        ("5", None),
    ],
)
def test_usage(usage: Any, counted: Any) -> None:
    _, events = read([response(part("text", "x"), usage=usage)])
    assert events[0].get("usage") == (tokens(**counted) if counted else None)


def test_usage_of_an_answer_without_words_stands_alone() -> None:
    _, events = read(
        [
            USER,
            response(
                part("thinking", "t"), usage={"input_tokens": 1}, finish_reason="content_filter"
            ),
        ]
    )
    assert [event.get("usage") for event in events] == [None, None, tokens(input_tokens=1), None]
    assert notes_of(events, "message_facts") == [{"finish_reason": "content_filter"}]


def test_who_answered() -> None:
    record, _ = read(
        [
            response(
                part("text", "x"),
                model_name="gpt-4o",
                provider_name="openai",
                conversation_id="c-1",
            )
        ]
    )
    assert record.participants[0]["model"] == "gpt-4o"
    assert (record.conversation["provider"], record.conversation["id"]) == ("openai", "c-1")


def test_unknown_parts_and_records_are_noted() -> None:
    record, events = read(
        [USER, request(part("tele-path", "x")), response(part("compaction", None))]
    )
    assert [(note.code, note.detail) for note in record.notes] == [
        ("unknown-part", "part tele_path, preserved verbatim")
    ]
    assert notes_of(events, "compaction") == [{"encrypted": True}]
    record, _ = read(lines(*[USER] * 70, {"kind": "other"}, 5))
    assert [(note.code, note.place) for note in record.notes] == [
        ("unknown-record", "line 71"),
        ("unknown-record", "line 72"),
    ]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"kind": 5}, True])
def test_hostile_shapes(odd: Any) -> None:
    kinds = (
        "system-prompt",
        "user-prompt",
        "tool-return",
        "retry-prompt",
        "text",
        "thinking",
        "file",
        "compaction",
        "instruction",
        "retry-feedback",
        "speech",
        "instruction-baseline",
        "instruction-delta",
        "tool-availability-delta",
    )
    parts = [
        part(
            kind,
            odd,
            tool_name=odd,
            tool_call_id=odd,
            timestamp=odd,
            outcome=odd,
            transcript=odd,
            audio=odd,
            instructions=odd,
        )
        for kind in kinds
    ]
    call = {"part_kind": "tool-call", "tool_name": odd, "args": odd, "tool_call_id": odd}
    read(
        [
            request(*parts, instructions=odd),
            response(
                *parts,
                call,
                usage=odd,
                model_name=odd,
                timestamp=odd,
                finish_reason=odd,
                failed_attempts=[odd],
            ),
        ]
    )
    read(
        [
            USER,
            {"kind": "request", "parts": [{"part_kind": odd}]},
            response(part("user-prompt", [odd, {"kind": "binary", "data": odd}])),
        ]
    )


@pytest.mark.parametrize(
    "odd",
    [
        part("text", "words"),
        part("thinking", "a thought"),
        part("file", {}),
        part("compaction", "what was said"),
        {"part_kind": "tool-call", "tool_name": "f", "args": "{}"},
    ],
)
def test_what_only_a_model_says_has_a_speaker_in_a_request_too(odd: Any) -> None:
    """Found by the fuzzer: its actor was nobody."""
    record, events = read([request(odd)])
    known = {participant["actor_id"] for participant in record.participants}
    assert events
    assert {event["actor_id"] for event in events} <= known
