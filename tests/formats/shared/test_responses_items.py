"""Items of the Responses API become events: each kind, its odd forms, and kinds of tomorrow."""

import base64
import json
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import parse_arguments
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content, parse_usage
from open_token.formats.shared.responses_items import ItemActors, add_item
from open_token.model.document import Event, Record

PNG = base64.b64encode(b"\x89PNG tiny").decode()


def read_items(*items: Any, **options: Any) -> tuple[Record, list[Event]]:
    draft = Draft()
    actors = ItemActors(draft, provider="openai", model="gpt-5")
    for number, one in enumerate(items, 1):
        add_item(draft, one, actors, place=f"item {number}", **options)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


def brief(event: Event) -> tuple[str, str | None, Any]:
    body = event["content"]
    return event["type"], event.get("role"), body["text"] if "text" in body else body["data"]


def test_messages_of_all_roles() -> None:
    record, events = read_items(
        {"type": "message", "role": "system", "content": "be brief"},
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "use tabs"}],
        },
        {"role": "user", "content": "hello"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        },
    )
    assert [brief(event)[1:] for event in events] == [
        ("system", "be brief"),
        ("developer", "use tabs"),
        ("user", "hello"),
        ("assistant", "hi"),
    ]
    assert [event["visibility"] for event in events] == ["internal", "internal", "public", "public"]
    assert [who["kind"] for who in record.participants] == ["system", "human", "model"]
    assert record.participants[-1]["model"] == "gpt-5"


def test_only_those_who_speak_are_participants() -> None:
    record, _ = read_items({"type": "message", "role": "assistant", "content": "alone"})
    assert [who["name"] for who in record.participants] == ["assistant"]


def test_a_message_of_several_blocks_is_a_list() -> None:
    _, events = read_items(
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "see"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PNG}",
                    "detail": "low",
                },
                {"type": "input_image", "file_id": "file-1"},
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": f"data:application/pdf;base64,{PNG}",
                },
                {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
                {"type": "refusal", "refusal": "no"},
                {"type": "encrypted_content", "encrypted_content": "gAAAA"},
                {"type": "novel", "x": 1},
            ],
        }
    )
    blocks = events[0]["content"]["data"]
    assert [block["type"] for block in blocks] == [
        "text",
        "image",
        "input_image",
        "file",
        "audio",
        "refusal",
        "encrypted_content",
        "novel",
    ]
    assert blocks[1]["bytes"] == 9
    assert blocks[1]["detail"] == "low"
    assert blocks[3]["filename"] == "a.pdf"
    assert blocks[4]["media_type"] == "audio/wav"
    assert blocks[6] == {"type": "encrypted_content", "encrypted": True}
    assert blocks[7] == {"type": "novel", "x": 1}


def test_where_words_were_found_stands_beside_them() -> None:
    cited = {"type": "url_citation", "url": "https://example.org"}
    _, events = read_items(
        {
            "role": "assistant",
            "status": "incomplete",
            "content": [{"type": "output_text", "text": "so", "annotations": [cited]}],
        }
    )
    assert brief(events[1]) == (
        "annotation",
        None,
        {"kind": "message_facts", "citations": [cited], "status": "incomplete"},
    )
    assert events[1]["links"]["parent_id"] == events[0]["id"]


def test_an_unknown_role_is_kept_as_an_annotation() -> None:
    _, events = read_items({"type": "message", "role": "critic", "content": "hm"})
    assert brief(events[0]) == (
        "annotation",
        None,
        {"kind": "message", "role": "critic", "content": "hm"},
    )


def test_reasoning() -> None:
    parts = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
    record, events = read_items(
        {"type": "reasoning", "summary": parts, "encrypted_content": "gAAAA"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "raw"}],
        },
        {"type": "reasoning", "summary": [], "content": None},
        {"type": "reasoning", "summary": None},
    )
    assert [event["content"] for event in events] == [
        {"mime": "text/plain", "text": "one\n\ntwo", "data": {"summary": "runtime"}},
        {"mime": "application/json", "data": {"redacted": True, "encrypted": True}},
        {"mime": "text/plain", "text": "raw"},
    ]
    assert {(note.code, note.count) for note in record.notes} == {
        ("sealed-reasoning", 1),
        ("empty-reasoning", 2),
    }


def test_function_calls_pair_on_call_id() -> None:
    _, events = read_items(
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "add",
            "arguments": '{"a": 1}',
            "namespace": "math",
        },
        {
            "type": "function_call",
            "id": "fc_2",
            "call_id": "c2",
            "name": "bad",
            "arguments": "{oops",
        },
        {"type": "function_call_output", "call_id": "c2", "output": "no", "status": "incomplete"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "2"}],
        },
    )
    uses = [event["content"]["data"] for event in events if event["type"] == "tool_use"]
    assert uses[0] == {
        "tool_name": "add",
        "arguments": {"a": 1},
        "native_call_id": "c1",
        "namespace": "math",
    }
    assert uses[1]["arguments"] == {"raw": "{oops"}
    assert [brief(event)[2] for event in events[2:]] == [
        "no",
        {"kind": "result_facts", "status": "incomplete"},
        "2",
    ]
    assert events[0]["links"]["call_id"] == events[4]["links"]["call_id"]


def test_outputs_keep_their_form() -> None:
    picture = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ]
    _, events = read_items(
        {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": picture},
        {"type": "function_call", "call_id": "b", "name": "t", "arguments": None},
        {
            "type": "function_call_output",
            "call_id": "b",
            "output": {"content": "old", "success": False},
        },
        {"type": "function_call", "call_id": "c", "name": "t", "arguments": "[1]"},
        {"type": "function_call_output", "call_id": "c", "output": {"rows": 3}},
        {"type": "function_call", "call_id": "d", "name": "t", "arguments": "3"},
        {"type": "function_call_output", "call_id": "d"},
    )
    results = [event["content"] for event in events if event["type"] == "tool_result"]
    assert [block["type"] for block in results[0]["data"]] == ["text", "image"]
    assert results[1] == {"mime": "text/plain", "text": "old"}
    assert results[2]["data"] == {"rows": 3}
    assert results[3] == {"mime": "text/plain", "text": ""}
    given = [
        event["content"]["data"]["arguments"] for event in events if event["type"] == "tool_use"
    ]
    assert given == [{}, {}, [1], {"raw": "3"}]


def test_other_calls_with_an_output_of_their_own() -> None:
    screenshot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
    _, events = read_items(
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "done"},
        {"type": "local_shell_call", "call_id": "b", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "b", "output": "x"},
        {"type": "computer_call", "call_id": "c", "action": {"type": "click", "x": 1}},
        {"type": "computer_call_output", "call_id": "c", "output": screenshot},
        {"type": "shell_call", "call_id": "d", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "call_id": "d",
            "output": [{"stdout": "x", "outcome": {"type": "exit"}}],
        },
        {"type": "tool_search_call", "call_id": "e", "arguments": {"query": "q"}},
        {"type": "tool_search_output", "call_id": "e", "tools": [{"name": "f"}]},
    )
    uses = [event["content"]["data"] for event in events if event["type"] == "tool_use"]
    assert [(use["tool_name"], use["arguments"]) for use in uses] == [
        ("apply_patch", {"input": "*** Begin"}),
        ("local_shell", {"type": "exec", "command": ["ls"]}),
        ("computer", {"action": {"type": "click", "x": 1}}),
        ("shell", {"commands": ["ls"]}),
        ("tool_search", {"query": "q"}),
    ]
    results = [event["content"] for event in events if event["type"] == "tool_result"]
    assert results[0]["text"] == "done"
    assert results[2]["data"][0]["type"] == "image"
    assert results[3]["data"][0]["stdout"] == "x"
    assert results[4]["data"] == [{"name": "f"}]


MISSING = {"missing_result": True}


@pytest.mark.parametrize(
    ("one", "tool", "given", "result"),
    [
        (
            {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "q"}},
            "web_search",
            {"type": "search", "query": "q"},
            MISSING,
        ),
        (
            {
                "type": "web_search_call",
                "id": "w",
                "action": {"query": "q", "sources": [{"url": "u"}]},
            },
            "web_search",
            {"query": "q"},
            {"sources": [{"url": "u"}]},
        ),
        (
            {"type": "web_search_call", "id": "w", "results": [{"t": 1}]},
            "web_search",
            {},
            [{"t": 1}],
        ),
        (
            {"type": "file_search_call", "id": "f", "queries": ["q"], "results": None},
            "file_search",
            {"queries": ["q"]},
            MISSING,
        ),
        (
            {"type": "file_search_call", "id": "f", "queries": ["q"], "results": []},
            "file_search",
            {"queries": ["q"]},
            [],
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "c",
                "code": "1",
                "outputs": [{"type": "logs", "logs": "1\n"}],
            },
            "code_interpreter",
            {"code": "1"},
            "1\n",
        ),
        (
            {"type": "code_interpreter_call", "id": "c", "code": "1", "outputs": None},
            "code_interpreter",
            {"code": "1"},
            MISSING,
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "ask", "arguments": '{"q":1}', "output": "yes"},
            "ask",
            {"q": 1},
            "yes",
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "ask", "arguments": "{}", "output": None},
            "ask",
            {},
            MISSING,
        ),
        (
            {"type": "teleport_call", "id": "t", "to": "moon", "output": "there"},
            "teleport",
            {"to": "moon"},
            "there",
        ),
    ],
)
def test_calls_the_provider_runs_itself(one: Any, tool: str, given: Any, result: Any) -> None:
    _, events = read_items(one)
    use, answer = events
    assert use["content"]["data"]["tool_name"] == tool
    assert use["content"]["data"]["arguments"] == given
    assert brief(answer)[2] == result
    assert use["links"] == answer["links"]


def test_a_generated_image_is_the_result() -> None:
    _, events = read_items(
        {"type": "image_generation_call", "id": "i", "revised_prompt": "a cat", "result": PNG}
    )
    assert events[1]["content"]["data"][0]["media_type"] == "image/png"
    assert events[0]["content"]["data"]["arguments"] == {"revised_prompt": "a cat"}


def test_an_mcp_error_is_the_output_and_a_fact() -> None:
    _, events = read_items(
        {
            "type": "mcp_call",
            "id": "m",
            "name": "ask",
            "server_label": "s",
            "arguments": "{}",
            "error": "boom",
        }
    )
    assert events[0]["content"]["data"]["server_label"] == "s"
    assert [brief(event)[2] for event in events[1:]] == [
        "boom",
        {"kind": "result_facts", "is_error": True},
    ]


def test_items_without_a_turn_become_annotations() -> None:
    _, events = read_items(
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "ask"}]},
        {"type": "mcp_approval_request", "id": "r", "name": "ask", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "r", "approve": False},
        {"type": "compaction", "encrypted_content": "gAAAA"},
    )
    assert [event["content"]["data"]["kind"] for event in events] == [
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "compaction",
    ]
    assert events[2]["content"]["data"]["approve"] is False
    assert events[3]["content"]["data"] == {"kind": "compaction", "encrypted": True}


def test_unknown_items_are_noted_by_kind_only_when_it_is_a_name() -> None:
    record, events = read_items(
        {"type": "ghost_snapshot", "x": 1}, {"type": "a secret text!"}, {"x": 1}, 7, None, []
    )
    assert events == []
    assert [(note.detail, note.count) for note in record.notes] == [
        ("item ghost_snapshot", 1),
        ("item without a known type", 2),
        ("an item that is not an object", 3),
    ]


def test_usage_goes_on_the_event_that_is_named() -> None:
    draft = Draft()
    actors = ItemActors(draft)
    counted = parse_usage({"input_tokens": 5, "output_tokens": 2})
    said = [
        add_item(draft, one, actors, place="x", usage=counted)
        for one in (
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "summary": [{"text": "s"}], "content": [{"text": "r"}]},
            {"type": "mcp_call", "id": "m", "name": "a", "arguments": "{}", "output": "o"},
            {"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"},
            {"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "o"},
            {"role": "assistant", "content": "bye"},
        )
    ]
    events = {event["id"]: event for event in draft.finish(lambda: "0" * 64).events}
    assert said[0] is None
    assert said[4] is None
    assert said[5] is None
    named = [event_id for event_id in said if event_id]
    assert {event_id for event_id, event in events.items() if "usage" in event} == set(named)
    assert [events[event_id]["type"] for event_id in named] == [
        "message",
        "tool_use",
        "tool_use",
        "message",
    ]


def test_usage_in_both_forms() -> None:
    api = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    flat = {
        "input_tokens": 10,
        "cached_input_tokens": 4,
        "output_tokens": 5,
        "reasoning_output_tokens": 3,
    }
    expected = {
        "input_tokens": 10,
        "output_tokens": 5,
        "reasoning_tokens": 3,
        "cache_read_tokens": 4,
    }
    assert parse_usage(api) == parse_usage(flat) == expected
    assert (
        parse_usage({"input_tokens": True, "output_tokens": -1, "input_tokens_details": 3}) is None
    )
    assert parse_usage([]) is None


def test_values() -> None:
    assert parse_arguments('{"a":1}') == {"a": 1}
    assert parse_arguments("[" * 100_000) == "[" * 100_000
    assert parse_arguments("\ud800") == "\ud800"
    assert parse_content(None) == ""
    assert parse_content(3) == [3]
    assert parse_content(["a", 1]) == [{"type": "text", "text": "a"}, 1]
    assert format_kind("web_search.v2") == "web_search.v2"
    assert format_kind("x" * 60) == format_kind(None) == "without a known type"


ODD: list[Any] = [
    None,
    0,
    -1.5,
    True,
    "",
    "text",
    [],
    [None],
    [[]],
    {},
    {"type": 1},
    {"text": []},
    {"": {"": None}},
]
RICH: list[dict[str, Any]] = [
    {
        "type": "message",
        "role": "assistant",
        "status": "s",
        "content": [{"type": "output_text", "text": "x"}],
    },
    {"type": "reasoning", "summary": [{"text": "s"}], "content": [], "encrypted_content": "e"},
    {
        "type": "function_call",
        "id": "i",
        "call_id": "c",
        "name": "n",
        "arguments": "{}",
        "namespace": "m",
    },
    {"type": "function_call_output", "call_id": "c", "output": "o", "status": "s"},
    {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "i"},
    {"type": "computer_call", "call_id": "c", "action": {}},
    {"type": "web_search_call", "id": "i", "action": {}, "results": []},
    {"type": "file_search_call", "id": "i", "queries": [], "results": []},
    {"type": "code_interpreter_call", "id": "i", "code": "c", "outputs": []},
    {
        "type": "image_generation_call",
        "id": "i",
        "result": "r",
        "revised_prompt": "p",
        "output_format": "png",
    },
    {"type": "mcp_call", "id": "i", "name": "n", "arguments": "{}", "output": "o", "error": None},
    {"type": "mcp_list_tools", "server_label": "s", "tools": []},
    {"type": "compaction", "encrypted_content": "e"},
    {"type": "novel_call", "id": "i", "output": "o"},
    {"type": "novel_call_output", "call_id": "i", "output": "o"},
]


@pytest.mark.parametrize("one", RICH, ids=lambda one: one["type"])
def test_odd_values_never_break_it(one: dict[str, Any]) -> None:
    for name in one:
        for odd in ODD:
            record, events = read_items({**one, name: odd})
            json.dumps(events)
            assert len(events) + len(record.notes) > 0
