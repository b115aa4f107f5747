"""OpenAI Responses: a flat list of items, events that tell each item as it grows and once more when
it is done."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.replay.asked import Answer, Asked, Got, Item, Made, Said, Tool
from open_token.replay.plain import MEDIA, flat, is_media, list_of, object_of, text_of
from open_token.replay.wires._events import named
from open_token.replay.wires._json import parsed

_USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}


def read(body: dict[str, Any], _: str) -> Asked:
    """The request; what a developer says is none of the user's words."""
    given = body.get("input")
    items: list[Item] = [Said("user", given)] if isinstance(given, str) else []
    for item in map(object_of, list_of(given)):
        items += _items(item)
    form = object_of(object_of(body.get("text")).get("format"))
    limit = body.get("max_output_tokens")
    return Asked(
        "responses",
        text_of(body.get("model")),
        body.get("stream") is True,
        items,
        list(_tools(_offered(body))),
        text_of(body.get("instructions")),
        form.get("schema"),
        is_form=form.get("type") in ("json_schema", "json_object"),
        limit=limit if isinstance(limit, int) else None,
    )


def _items(item: dict[str, Any]) -> Iterator[Item]:
    kind, name = item.get("type", "message"), text_of(item.get("call_id"))
    if kind == "message" and item.get("role") in ("user", "assistant"):
        content = item.get("content")
        for block in [content] if isinstance(content, str) else list_of(content):
            if text := MEDIA if is_media(block) else flat(block):
                yield Said("model" if item["role"] == "assistant" else "user", text)
    elif kind == "function_call":
        yield Made(name, text_of(item.get("name")), parsed(item.get("arguments")))
    elif kind == "custom_tool_call":
        yield Made(name, text_of(item.get("name")), text_of(item.get("input")))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield Got(name, "", flat(item.get("output")))


def _offered(body: dict[str, Any]) -> list[Any]:
    """The tools of a request; Codex puts them into an item of the input where its model takes them
    there."""
    items = (object_of(item) for item in list_of(body.get("input")))
    more = [list_of(item.get("tools")) for item in items if item.get("type") == "additional_tools"]
    return [tool for tools in (list_of(body.get("tools")), *more) for tool in tools]


def _tools(tools: list[Any]) -> Iterator[Tool]:
    for tool in map(object_of, tools):
        if tool.get("type") == "namespace":
            yield from _tools(list_of(tool.get("tools")))
        elif name := text_of(tool.get("name")):
            is_custom = tool.get("type") == "custom"
            is_script = is_custom and "tools.exec_command" in text_of(tool.get("description"))
            yield Tool(name, object_of(tool.get("parameters")), is_custom, is_script)


def _output(answer: Answer, asked: Asked) -> list[dict[str, Any]]:
    custom = {tool.name for tool in asked.tools if tool.is_custom}
    made = []
    for number, part in enumerate(answer.parts):
        name = f"{answer.id}_{number}"
        if isinstance(part, str):
            content = [{"type": "output_text", "text": part, "annotations": []}]
            about = {
                "type": "message",
                "id": f"msg_{name}",
                "role": "assistant",
                "status": "completed",
            }
            made.append({**about, "content": content})
        elif part.name in custom:
            about = {
                "type": "custom_tool_call",
                "id": f"ctc_{name}",
                "call_id": part.id,
                "name": part.name,
            }
            made.append({**about, "input": part.arguments, "status": "completed"})
        else:
            given = msgspec.json.encode(part.arguments).decode()
            about = {
                "type": "function_call",
                "id": f"fc_{name}",
                "call_id": part.id,
                "name": part.name,
            }
            made.append({**about, "arguments": given, "status": "completed"})
    return made


def _response(
    answer: Answer, asked: Asked, output: list[dict[str, Any]], status: str
) -> dict[str, Any]:
    about = {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": asked.model,
    }
    told = {"output": output, "usage": _USAGE if status == "completed" else None, "error": None}
    choice = {
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "incomplete_details": None,
    }
    return {**about, **told, **choice, "instructions": None, "metadata": {}}


def reply(answer: Answer, asked: Asked) -> bytes:
    """The answer as one response."""
    return msgspec.json.encode(_response(answer, asked, _output(answer, asked), "completed"))


def stream(answer: Answer, asked: Asked) -> bytes:
    """The answer as numbered events."""
    events = enumerate(_events(answer, asked))
    return b"".join(named({**event, "sequence_number": number}) for number, event in events)


def _events(answer: Answer, asked: Asked) -> Iterator[dict[str, Any]]:
    begun = _response(answer, asked, [], "in_progress")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    output = _output(answer, asked)
    for index, item in enumerate(output):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            yield from _words(item, at)
        else:
            field = "input" if item["type"] == "custom_tool_call" else "arguments"
            kind = "custom_tool_call_input" if field == "input" else "function_call_arguments"
            empty = {**item, field: "", "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": index, "item": empty}
            yield {"type": f"response.{kind}.delta", **at, "delta": item[field]}
            yield {"type": f"response.{kind}.done", **at, field: item[field]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": _response(answer, asked, output, "completed")}


def _words(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    part = item["content"][0]
    empty = {**item, "content": [], "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": at["output_index"], "item": empty}
    yield {
        "type": "response.content_part.added",
        **at,
        "content_index": 0,
        "part": {**part, "text": ""},
    }
    yield {
        "type": "response.output_text.delta",
        **at,
        "content_index": 0,
        "delta": part["text"],
        "logprobs": [],
    }
    yield {
        "type": "response.output_text.done",
        **at,
        "content_index": 0,
        "text": part["text"],
        "logprobs": [],
    }
    yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}


def error(_: int, message: str) -> bytes:
    """An error as this provider tells it."""
    told = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "replay_miss",
    }
    return msgspec.json.encode({"error": told})
