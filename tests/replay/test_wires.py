"""The four wires: what each reads out of a request, how each tells an answer."""

import json
from typing import Any

import pytest

from open_token.replay.asked import Answer, Made
from open_token.replay.wires import WIRES, count_of, read, refused, wire_of, written

ANSWER = Answer("1", ["Look:", Made("c", "ls", {"path": "."})])


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
def test_the_path_tells_the_wire(path: str, wire: str | None) -> None:
    assert wire_of(path) == wire
    assert count_of(path) is None


def test_anthropic_has_system_entries_among_its_messages() -> None:
    blocks = [{"type": "text", "text": "Go"}, {"type": "image", "source": {}}]
    messages = [{"role": "user", "content": blocks}, {"role": "system", "content": "x"}]
    asked = read(
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
    asked = read("responses", {"input": items, "tools": [{"type": "web_search"}]}, "")
    assert [(tool.name, tool.is_custom, tool.is_script) for tool in asked.tools] == [
        ("exec", True, True),
        ("wait", False, False),
    ]
    assert asked.prompts == ["Go"]
    told = json.loads(written(asked, Answer("1", [Made("c", "exec", "text(1)")])).body)
    assert (told["output"][0]["type"], told["output"][0]["input"]) == (
        "custom_tool_call",
        "text(1)",
    )


def test_responses_may_be_asked_with_a_text() -> None:
    assert read(
        "responses", {"input": "Go", "text": {"format": {"type": "json_schema", "schema": {}}}}, ""
    ).is_form


def test_chat_sends_usage_on_request_alone() -> None:
    body: dict[str, Any] = {"messages": [], "stream": True}
    assert b'"usage"' not in written(read("chat", body, ""), ANSWER).body
    body["stream_options"] = {"include_usage": True}
    assert b'"usage"' in written(read("chat", body, ""), ANSWER).body


def test_gemini_in_both_spellings_and_as_a_list() -> None:
    path = "/v1beta/models/g:streamGenerateContent"
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Go"}, {"inlineData": {}}]}],
        "generation_config": {"response_schema": {"type": "STRING"}},
    }
    asked = read("gemini", body, path)
    assert (asked.model, asked.stream, asked.is_listed, asked.is_form) == ("g", True, True, True)
    assert asked.prompts == ["Go", "[media]"]
    (whole,) = json.loads(written(asked, ANSWER).body)
    assert whole["candidates"][0]["content"]["parts"][1]["functionCall"]["name"] == "ls"
    assert not read("gemini", body, path + "?alt=sse").is_listed


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_is_json_with_its_words(wire: str) -> None:
    reply = refused(wire, 400, "no")
    assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, "no")
    asked = read(wire, {}, "")
    assert written(asked, Answer("1", [], "no")).body == reply.body
