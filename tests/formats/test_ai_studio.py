"""Prompts of Google AI Studio: chunks, thoughts and their tokens, code, files, what was not
sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.exported import everything, join_texts, words
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["ai_studio"]

read = build_read_function(READER)


def prompt(*chunks: Any, **more: Any) -> dict[str, Any]:
    return {
        "runSettings": {"model": "models/gemini-x"},
        "chunkedPrompt": {"chunks": list(chunks)},
        **more,
    }


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "text": text, **more}


def model(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "model", "text": text, **more}


def summarize_file(value: Any) -> list[Any]:
    return [event for event in summarize_events(read(value)[1]) if event[0] != "annotation"]


def test_facts_of_the_conversation() -> None:
    record, events = read(
        prompt(user("hi", createTime="2026-01-01T00:00:00Z"), model("ho"), title="T", id="p1")
    )
    facts = record.conversation
    assert (facts["id"], facts["title"], facts["started_at"]) == ("p1", "T", "2026-01-01T00:00:00Z")
    assert (facts["source_runtime"], facts["provider"]) == ("web", "google")
    assert record.participants[-1]["model"] == "gemini-x"
    assert summarize_events(events)[0] == (
        "annotation",
        {"kind": "context", "run_settings": {"model": "models/gemini-x"}},
    )


@pytest.mark.parametrize("instruction", [{"text": "S"}, {"parts": [{"text": "S"}]}, "S"])
def test_the_system_instruction(instruction: Any) -> None:
    assert summarize_file(prompt(user("x"), systemInstruction=instruction)) == [
        ("system", "S"),
        ("user", "x"),
    ]


@pytest.mark.parametrize("instruction", [None, {}, {"parts": []}, {"text": ""}, 5])
def test_no_system_instruction(instruction: Any) -> None:
    assert summarize_file(prompt(user("x"), systemInstruction=instruction)) == [("user", "x")]


def test_tokens_of_thoughts_are_reported_with_the_answer() -> None:
    _, events = read(
        prompt(user("q"), model("t", isThought=True, tokenCount=7), model("a", tokenCount=3))
    )
    assert summarize_events(events)[2:] == [("assistant_thought", "t"), ("assistant", "a")]
    assert events[-2]["content"]["data"] == {"summary": "runtime"}
    assert events[-1]["usage"] == tokens(output_tokens=10, reasoning_tokens=7)


def test_tokens_of_thoughts_without_an_answer() -> None:
    _, events = read(
        prompt(model("t", isThought=True, tokenCount=7), user("q"), model("a", tokenCount=1))
    )
    assert [event.get("usage") for event in events][1:] == [
        *(None, tokens(output_tokens=7, reasoning_tokens=7), None, tokens(output_tokens=1)),
    ]


@pytest.mark.parametrize(
    ("chunk", "said"),
    [
        ({"text": "ab", "parts": [{"text": "a"}, {"text": "b"}]}, "ab"),
        ({"text": "ab", "parts": [{"text": "a"}]}, "ab"),
        (
            {"parts": [{"text": "a"}, {"text": "b"}]},
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
        (
            {"text": "x", "parts": [{"text": "y"}]},
            [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
        ),
        ({"text": "", "parts": [{"text": "y"}]}, "y"),
    ],
)
def test_a_text_and_its_parts_are_reported_once(chunk: dict[str, Any], said: Any) -> None:
    assert summarize_file(prompt({"role": "model", **chunk})) == [("assistant", said)]


def test_code_and_its_result() -> None:
    _, events = read(
        prompt(
            {"role": "model", "executableCode": {"language": "PYTHON", "code": "1"}},
            {"role": "model", "codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
        )
    )
    assert [event["type"] for event in events[1:]] == ["tool_use", "tool_result", "annotation"]
    assert events[1]["links"] == events[2]["links"]


def test_files() -> None:
    record, events = read(
        prompt(
            {"role": "user", "inlineFile": {"mimeType": "image/png", "data": PNG}},
            {"role": "user", "text": "see", "driveDocument": {"id": "d1"}},
            {"role": "user", "hologram": {"id": "h"}},
        )
    )
    shown = [event["content"] for event in events if event["type"] == "message"]
    assert shown[0]["data"][0]["media_type"] == "image/png"
    assert shown[1]["data"] == [
        {"type": "text", "text": "see"},
        {"type": "file", "source": "driveDocument", "id": "d1"},
    ]
    assert [note.code for note in record.notes] == ["missing-file", "unknown-part"]


def test_what_was_not_sent_is_beside_the_conversation() -> None:
    value = prompt(
        user("x"), pendingInputs=[{"text": "", "role": "user"}, {"text": "hal", "role": "user"}, 5]
    )
    assert summarize_events(read(value)[1])[-1] == (
        "annotation",
        {"kind": "pending_input", "text": "hal"},
    )


@pytest.mark.parametrize(
    "chunk",
    [
        *(
            None,
            5,
            [],
            {},
            {"role": []},
            {"role": "system", "text": "x"},
            {"role": "user", "text": 5, "parts": 5},
        ),
        {
            "role": "model",
            "text": [],
            "parts": [5, None, {}],
            "tokenCount": "x",
            "executableCode": [],
        },
        {
            "role": "model",
            "inlineFile": {"data": 5},
            "driveImage": 5,
            "createTime": 5,
            "errorMessage": {},
        },
    ],
)
def test_hostile_chunks(chunk: Any) -> None:
    assert ("user", "said") in summarize_events(read(prompt(user("said"), chunk))[1])


@pytest.mark.parametrize(
    "value", [{"chunkedPrompt": []}, {"chunkedPrompt": {}}, [], {"chunks": []}]
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_real_prompts_are_reported_whole(corpus: Path) -> None:
    path = corpus / "other_exports" / "google_ai_studio.json"
    reader, made = everything(path)
    assert reader == "ai_studio"
    said = join_texts(made)
    assert all(text in said for text in words(json.loads(path.read_text())))
