"""Messages of every framework in one form: roles, blocks, calls, results, media, whatever their
fields are called."""

from typing import Any

import pytest

from open_token.formats.shared.fields import parse_json_text
from open_token.formats.shared.message_dicts import parse_message, parse_messages
from open_token.formats.shared.messages import (
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    normalize_role,
    parse_media,
    parse_part,
)
from readers.provider_readers import PNG


def part(block: Any) -> Any:
    odd: list[Any] = []
    made = parse_part(block, odd)
    assert odd == []
    return made


@pytest.mark.parametrize(
    ("block", "made"),
    [
        ("plain", TextPart("plain")),
        ({"type": "text", "text": "a"}, TextPart("a")),
        ({"type": "text", "content": "b"}, TextPart("b")),
        ({"type": "refusal", "refusal": "no"}, TextPart("no")),
        (
            {"type": "text", "text": "a", "citations": [1]},
            TextPart([{"type": "text", "text": "a", "citations": [1]}]),
        ),
        ({"type": "thinking", "thinking": "t", "signature": "s"}, ReasoningPart("t")),
        ({"type": "redacted_thinking", "data": "x"}, ReasoningPart(None)),
        ({"type": "reasoning", "reasoning": "r"}, ReasoningPart("r")),
        ({"type": "reasoning", "content": "r"}, ReasoningPart("r")),
        (
            {"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}]},
            ReasoningPart("a\n\nb", summary=True),
        ),
        ({"type": "reasoning", "summary": []}, ReasoningPart("")),
        (
            {"type": "reasoning_content", "reasoning_content": {"text": "w", "signature": "s"}},
            ReasoningPart("w"),
        ),
        (
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
            ToolCallPart("1", "f", {"a": 1}),
        ),
        (
            {"type": "tool_call", "id": "1", "name": "f", "args": {"a": 1}},
            ToolCallPart("1", "f", {"a": 1}),
        ),
        (
            {"type": "tool_call", "id": "1", "name": "f", "arguments": '{"a":1}'},
            ToolCallPart("1", "f", {"a": 1}),
        ),
        ({"type": "tool_call", "name": "f"}, ToolCallPart(None, "f", {})),
        (
            {"type": "server_tool_use", "id": "1", "name": "web", "input": {}},
            ToolCallPart("1", "web", {}, {"native_type": "server_tool_use"}),
        ),
        (
            {"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": True},
            ToolResultPart("1", "x", None, {"is_error": True}),
        ),
        (
            {"type": "tool_call_response", "id": "1", "response": {"a": 1}},
            ToolResultPart("1", {"a": 1}),
        ),
        (
            {"type": "tool_call_response", "id": "1", "result": "r", "name": "f"},
            ToolResultPart("1", "r", "f"),
        ),
        (
            {"type": "web_search_tool_result", "tool_use_id": "1", "content": []},
            ToolResultPart("1", []),
        ),
    ],
)
def test_parts(block: Any, made: Any) -> None:
    assert part(block) == made


@pytest.mark.parametrize(
    "block", [{"type": "hologram", "x": 1}, {"type": 5}, 7, None, {"type": "image"}]
)
def test_what_nobody_knows_is_kept_as_it_is(block: Any) -> None:
    odd: list[Any] = []
    assert parse_part(block, odd) == TextPart([block])
    assert len(odd) == 1


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "data": PNG, "media_type": "image/png"}},
        {"type": "image", "source": {"type": "data", "value": PNG, "mimeType": "image/png"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG},
    ],
)
def test_a_picture_is_a_picture_however_it_is_written(block: Any) -> None:
    made = part(block).content[0]
    assert (made["type"], made["media_type"], made["bytes"], made["base64"]) == (
        "image",
        "image/png",
        9,
        PNG,
    )


def test_media_elsewhere() -> None:
    assert parse_media(
        {"uri": "https://example.org/a.mp3", "modality": "audio", "mime_type": "audio/mp3"}, "uri"
    ) == {
        "type": "audio",
        "url": "https://example.org/a.mp3",
        "media_type": "audio/mp3",
    }
    assert parse_media({"file_id": "f1", "modality": "document"}, "file") == {
        "type": "document",
        "file_id": "f1",
    }
    assert parse_media({"input_audio": {"data": PNG, "format": "wav"}}, "input_audio") == {
        **(parse_media({"data": PNG, "mime_type": "audio/wav"}, "audio") or {}),
    }
    assert parse_media({"source": {"type": "file", "value": "file-9"}}, "image") == {
        "type": "image",
        "url": "file-9",
    }


@pytest.mark.parametrize(
    ("role", "result"),
    [
        ("human", "user"),
        ("AI", "assistant"),
        ("model", "assistant"),
        ("function", "tool"),
        (None, ""),
    ],
)
def test_roles(role: Any, result: str) -> None:
    assert normalize_role(role) == result


def test_messages_with_calls_beside_the_content() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = parse_message(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "f"}],
            "tool_calls": [call],
        }
    )
    assert made is not None
    assert made.parts == [ToolCallPart("1", "f", {})]
    other = parse_message(
        {"role": "assistant", "content": None, "reasoning_content": "hm", "toolCalls": [call]}
    )
    assert other is not None
    assert other.parts == [ReasoningPart("hm"), ToolCallPart("1", "f", {})]
    older = parse_message(
        {"role": "assistant", "function_call": {"name": "g", "arguments": "no json"}}
    )
    assert older is not None
    assert older.parts == [ToolCallPart(None, "g", "no json")]


def test_messages_of_tools() -> None:
    plain = parse_message({"role": "tool", "tool_call_id": "1", "content": "x", "error": "broke"})
    assert plain is not None
    assert plain.parts == [ToolResultPart("1", "x", None, {"is_error": True, "error": "broke"})]
    parts = [{"type": "tool_call_response", "id": n, "response": n} for n in ("1", "2")]
    many = parse_message({"role": "tool", "parts": parts})
    assert many is not None
    assert many.parts == [ToolResultPart("1", "1"), ToolResultPart("2", "2")]


def test_lists_of_messages() -> None:
    unknown: list[Any] = []
    made = parse_messages('[[{"role": "user", "content": "a"}, {"content": "b"}, null]]', unknown)
    assert [message.parts for message in made] == [[TextPart("a")]]
    assert unknown == [{"content": "b"}]
    assert parse_messages("just words", unknown)[0].parts == [TextPart("just words")]
    assert parse_json_text("[1") == "[1"
