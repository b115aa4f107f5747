"""UIMessages of the Vercel AI SDK: parts of version 5 and 6, invocations of version 4, states of
calls, files."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, lines, notes_of, paired
from readers.provider_readers import PNG, build_read_function, summarize_events

READER = READERS["vercel_ui"]

read = build_read_function(READER)
USER = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


def answer(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"id": "a", "role": "assistant", "parts": [*parts], **more}


def tool(state: str, native: str = "1", **more: Any) -> dict[str, Any]:
    return {"type": "tool-f", "toolCallId": native, "state": state, "input": {"n": native}, **more}


@pytest.mark.parametrize(
    "value",
    [
        [USER],
        {"id": "chat", "messages": [USER]},
        lines(USER, answer()),
        [{"id": "a", "role": "assistant", "content": "", "toolInvocations": []}],
        [{"id": "u", "role": "user", "content": "x"}, USER],
    ],
    ids=lambda value: str(value)[:40],
)
def test_claims(value: Any) -> None:
    assert claimed(value) == "vercel_ui"


@pytest.mark.parametrize(
    "value",
    [
        [{"id": "u", "role": "user", "content": "x"}],
        [{"role": "user", "parts": [{"text": "x"}]}],
        [
            {
                "role": "user",
                "parts": [{"type": "text", "text": "x", "sessionID": "s", "messageID": "m"}],
            }
        ],
        [{"role": "model", "parts": [{"type": "text", "text": "x"}]}],
        [{"role": "user", "kind": "request", "parts": []}],
        [],
    ],
    ids=lambda value: str(value)[:40],
)
def test_leaves_to_others(value: Any) -> None:
    assert not READER.sniff(Source("input", data=json.dumps(value).encode()))


def events_of(*chunks: Any) -> bytes:
    """A stream as a browser gets it."""
    return (
        b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        + b"data: [DONE]\n\n"
    )


def test_a_saved_stream_is_the_message_that_a_client_makes_of_it() -> None:
    spoken = [
        {"type": f"text-{phase}", "id": "0", "delta": "hi"} for phase in ("start", "delta", "end")
    ]
    stream = events_of(
        {"type": "start", "messageId": "a"}, {"type": "start-step"}, *spoken, {"type": "finish"}
    )
    assert claimed(stream) == "vercel_ui"
    _, events = read(stream)
    assert summarize_events(events) == [("assistant", "hihi")]


def test_an_answer_that_goes_on_keeps_its_id_and_another_begins() -> None:
    def said(text: str) -> list[dict[str, Any]]:
        return [{"type": "start-step"}, {"type": "text-delta", "id": "0", "delta": text}]

    start = {"type": "start", "messageId": "a"}
    error = {"type": "error", "errorText": "gone"}
    stream = events_of(start, *said("1"), start, *said("2"), {"type": "start"}, *said("3"), error)
    record, events = read(stream)
    assert summarize_events(events)[:3] == [
        ("assistant", "1"),
        ("assistant", "2"),
        ("assistant", "3"),
    ]
    assert notes_of(events, "error") == [{"errorText": "gone"}]
    assert not record.notes


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], True])
def test_hostile_chunks(odd: Any) -> None:
    names = (
        "id",
        "delta",
        "toolCallId",
        "toolName",
        "input",
        "output",
        "messageId",
        "messageMetadata",
        "finishReason",
    )
    kinds = (
        "start",
        "text-delta",
        "tool-input-delta",
        "tool-output-available",
        "finish",
        "data-x",
        "file",
        "abort",
    )
    chunks = [{"type": kind, "inputTextDelta": odd, **dict.fromkeys(names, odd)} for kind in kinds]
    read(events_of({"type": "start"}, {"type": "start-step"}, *chunks, *chunks))


@pytest.mark.parametrize(
    "state",
    [
        "input-streaming",
        "input-available",
        "approval-requested",
        "approval-responded",
        "output-denied",
    ],
)
def test_a_call_without_output_has_no_result(state: str) -> None:
    _, events = read([USER, answer(tool(state))])
    assert events[2]["content"]["data"] == {"missing_result": True}


def test_outputs_and_errors() -> None:
    _, events = read(
        [answer(tool("output-available", output=0), tool("output-error", "2", errorText="broke"))]
    )
    assert [event["type"] for event in events[:4]] == [
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
    ]
    assert [text for role, text in summarize_events(events) if role == "tool"] == [0, "broke"]
    assert notes_of(events, "result_facts") == [{"is_error": True}]
    paired(events)


def test_an_output_that_is_null_is_an_output() -> None:
    _, events = read([answer(tool("output-available", output=None))])
    assert summarize_events(events)[1] == ("tool", "")


def test_calls_of_two_steps_are_two_groups() -> None:
    step = {"type": "step-start"}
    _, events = read(
        [
            answer(
                step,
                tool("output-available", output="x"),
                step,
                tool("input-available", "2"),
                {"type": "text", "text": "w"},
            )
        ]
    )
    assert [event["type"] for event in events] == [
        "tool_use",
        "tool_result",
        "tool_use",
        "tool_result",
        "message",
    ]


def test_approvals_are_reported() -> None:
    denied = tool("output-denied", approval={"id": "a", "approved": False, "reason": "no"})
    _, events = read(
        [
            answer(
                denied,
                tool("output-available", "2", output=1, approval={"id": "b", "approved": True}),
            )
        ]
    )
    assert notes_of(events, "action_required") == [
        {
            "action": "approval",
            "status": "denied",
            "tool": "f",
            "reason": "no",
            "native_call_id": "1",
        },
        {"action": "approval", "status": "approved", "tool": "f", "native_call_id": "2"},
    ]


def test_version_4_invocations() -> None:
    made = {
        "state": "result",
        "toolCallId": "1",
        "toolName": "f",
        "args": {"a": 1},
        "result": {"b": 2},
    }
    older = {
        "id": "a",
        "role": "assistant",
        "content": "text",
        "reasoning": "hm",
        "toolInvocations": [made, {**made, "state": "call", "toolCallId": "2"}],
    }
    _, events = read([older])
    assert [event.get("role") for event in events] == [
        "assistant_thought",
        "assistant",
        "assistant",
        "assistant",
        "tool",
        "tool",
    ]
    assert events[4]["content"]["data"] == {"b": 2}
    assert events[5]["content"]["data"] == {"missing_result": True}


def test_files_sources_and_data() -> None:
    files = [
        {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{PNG}"},
        {"type": "file", "mimeType": "application/pdf", "data": PNG},
        {"type": "file", "mediaType": "audio/mp3", "url": "https://example.org/a.mp3"},
    ]
    source = {
        "type": "source-document",
        "sourceId": "s",
        "mediaType": "text/plain",
        "title": "T",
        "providerMetadata": {"x": 1},
    }
    record, events = read(
        [
            {**USER, "parts": [*USER["parts"], *files]},
            answer(files[0], source, {"type": "data-x", "data": 1}),
        ]
    )
    assert [block["type"] for block in events[0]["content"]["data"]] == [
        "text",
        "image",
        "file",
        "audio",
    ]
    assert events[0]["content"]["data"][2]["bytes"] == 9
    assert events[1]["content"]["data"][0]["type"] == "image"
    citation = {"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "T"}
    assert notes_of(events, "message_facts") == [{"citations": [citation]}]
    assert notes_of(events, "custom") == [{"name": "data-x", "value": 1}]
    assert record.notes == []


def test_reasoning_with_and_without_words() -> None:
    sealed = {
        "type": "reasoning",
        "text": "",
        "providerMetadata": {"openai": {"reasoningEncryptedContent": "x"}},
    }
    record, events = read(
        [
            USER,
            answer({"type": "reasoning", "text": "a"}, sealed, {"type": "reasoning", "text": ""}),
        ]
    )
    assert [text for role, text in summarize_events(events) if role == "assistant_thought"] == [
        "a",
        {"redacted": True, "encrypted": True},
    ]
    assert [note.code for note in record.notes] == ["empty-reasoning"]


def test_times_of_both_versions() -> None:
    given = [
        {**USER, "createdAt": "2026-01-01T01:00:00+01:00"},
        {**USER, "metadata": {"createdAt": 1767225600000}},
        {**USER, "createdAt": 5},
    ]
    _, events = read(given)
    assert [event.get("ts") for event in events if event["type"] == "message"] == [
        "2026-01-01T00:00:00Z"
    ] * 2 + [None]


def test_chats_and_what_is_no_message() -> None:
    record, _ = read({"id": "c", "title": "T", "messages": [USER]})
    assert (record.conversation["id"], record.conversation["title"]) == ("c", "T")
    record, _ = read(lines(*[USER] * 70, {"role": "narrator"}, answer()))
    assert [(note.code, note.place) for note in record.notes] == [
        ("unknown-record", "line 71"),
        ("empty-message", "line 72"),
    ]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"type": 5}, True])
def test_hostile_shapes(odd: Any) -> None:
    names = (
        "toolCallId",
        "toolName",
        "input",
        "output",
        "state",
        "errorText",
        "approval",
        "toolInvocation",
        "title",
    )
    read(
        [
            USER,
            answer(
                *(tool("output-available", str(n)) | {name: odd} for n, name in enumerate(names))
            ),
        ]
    )
    read(
        [
            USER,
            answer(
                {"type": "text", "text": odd},
                {"type": "file", "url": odd, "data": odd},
                {"type": "reasoning", "text": odd, "details": odd},
            ),
        ]
    )
    read(
        [
            USER,
            {
                **USER,
                "parts": [{"type": "text", "text": odd}],
                "metadata": odd,
                "createdAt": odd,
                "experimental_attachments": odd,
            },
        ]
    )
    read(
        lines(
            *[USER] * 70,
            answer(odd),
            {**USER, "parts": odd},
            {"id": "a", "role": "assistant", "content": odd, "toolInvocations": [odd]},
            odd,
        )
    )
