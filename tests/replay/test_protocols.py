"""The four protocols: parsing of requests, rendering of responses."""

import json
from typing import Any

import pytest

from open_token.replay.protocols import (
    PROTOCOLS,
    answer_token_count,
    detect_protocol,
    parse_request,
    render_refusal,
    render_response,
)
from open_token.replay.requests import ModelResponse, ToolCall

ANSWER = ModelResponse("1", ["Look:", ToolCall("c", "ls", {"path": "."})])


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("/v1/messages?beta=true", "anthropic"),
        ("/messages", "anthropic"),
        ("/v1/responses", "responses"),
        ("/v1/chat/completions", "chat"),
        ("/openai/v1/chat/completions/", "chat"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini"),
        ("/v1/models", None),
        ("/v1/embeddings", None),
        ("", None),
    ],
)
def test_the_path_decides_the_protocol(path: str, wire: str | None) -> None:
    assert detect_protocol(path) == wire
    assert answer_token_count(path) is None


def test_anthropic_has_system_entries_among_its_messages() -> None:
    blocks = [{"type": "text", "text": "Go"}, {"type": "image", "source": {}}]
    messages = [{"role": "user", "content": blocks}, {"role": "system", "content": "x"}]
    asked = parse_request(
        "anthropic", {"messages": messages, "system": [{"text": "Be kind"}], "max_tokens": 1}, ""
    )
    assert (asked.prompts, asked.system, asked.limit) == (["Go", "[media]"], "Be kind", 1)


def test_codex_puts_tools_into_the_input() -> None:
    script = {"type": "custom", "name": "exec", "description": "await tools.exec_command(...)"}
    spaces = [
        {
            "type": "namespace",
            "name": "functions",
            "tools": [script, {"type": "function", "name": "wait"}],
        }
    ]
    items = [
        {"type": "additional_tools", "tools": spaces},
        {"role": "developer", "content": "x"},
        {"role": "user", "content": "Go"},
    ]
    asked = parse_request("responses", {"input": items, "tools": [{"type": "web_search"}]}, "")
    assert [(tool.name, tool.is_custom, tool.is_script) for tool in asked.tools] == [
        ("exec", True, True),
        ("wait", False, False),
    ]
    assert asked.prompts == ["Go"]
    result = json.loads(
        render_response(asked, ModelResponse("1", [ToolCall("c", "exec", "text(1)")])).body
    )
    assert (result["output"][0]["type"], result["output"][0]["input"]) == (
        "custom_tool_call",
        "text(1)",
    )


def test_responses_may_be_asked_with_a_text() -> None:
    assert parse_request(
        "responses", {"input": "Go", "text": {"format": {"type": "json_schema", "schema": {}}}}, ""
    ).wants_json


def test_chat_sends_usage_on_request_alone() -> None:
    body: dict[str, Any] = {"messages": [], "stream": True}
    assert b'"usage"' not in render_response(parse_request("chat", body, ""), ANSWER).body
    body["stream_options"] = {"include_usage": True}
    assert b'"usage"' in render_response(parse_request("chat", body, ""), ANSWER).body


def test_gemini_bodies_in_both_cases_and_as_a_list() -> None:
    path = "/v1beta/models/g:streamGenerateContent"
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Go"}, {"inlineData": {}}]}],
        "generation_config": {"response_schema": {"type": "STRING"}},
    }
    asked = parse_request("gemini", body, path)
    assert (asked.model, asked.stream, asked.is_json_list, asked.wants_json) == (
        "g",
        True,
        True,
        True,
    )
    assert asked.prompts == ["Go", "[media]"]
    (whole,) = json.loads(render_response(asked, ANSWER).body)
    assert whole["candidates"][0]["content"]["parts"][1]["functionCall"]["name"] == "ls"
    assert not parse_request("gemini", body, path + "?alt=sse").is_json_list


@pytest.mark.parametrize("wire", PROTOCOLS)
def test_an_error_is_json_with_its_message(wire: str) -> None:
    reply = render_refusal(wire, 400, "no")
    assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, "no")
    asked = parse_request(wire, {}, "")
    assert render_response(asked, ModelResponse("1", [], "no")).body == reply.body
