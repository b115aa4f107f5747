"""OpenAI Chat Completions, as many services and agents speak it: messages with calls, chunks
without names."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.replay.asked import Answer, Asked, Got, Item, Made, Said, Tool
from open_token.replay.plain import MEDIA, flat, is_media, list_of, object_of, text_of
from open_token.replay.wires._events import unnamed
from open_token.replay.wires._json import parsed

_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def read(body: dict[str, Any], _: str) -> Asked:
    """The request."""
    items: list[Item] = []
    system: list[str] = []
    for message in map(object_of, list_of(body.get("messages"))):
        if message.get("role") in ("system", "developer"):
            system.append(flat(message.get("content")))
        items += _items(message)
    form = object_of(body.get("response_format"))
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return Asked(
        "chat",
        text_of(body.get("model")),
        body.get("stream") is True,
        items,
        [_tool(object_of(object_of(tool).get("function"))) for tool in list_of(body.get("tools"))],
        "\n".join(system),
        object_of(form.get("json_schema")).get("schema"),
        is_form=form.get("type") in ("json_schema", "json_object"),
        limit=limit if isinstance(limit, int) else None,
        with_usage=object_of(body.get("stream_options")).get("include_usage") is True,
    )


def _items(message: dict[str, Any]) -> Iterator[Item]:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        yield Got(text_of(message.get("tool_call_id")), text_of(message.get("name")), flat(content))
    elif role in ("user", "assistant"):
        for block in [content] if isinstance(content, str) else list_of(content):
            if text := MEDIA if is_media(block) else flat(block):
                yield Said("model" if role == "assistant" else "user", text)
        for call in map(object_of, list_of(message.get("tool_calls"))):
            told = object_of(call.get("function"))
            yield Made(
                text_of(call.get("id")), text_of(told.get("name")), parsed(told.get("arguments"))
            )


def _tool(function: dict[str, Any]) -> Tool:
    return Tool(text_of(function.get("name")), object_of(function.get("parameters")))


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": msgspec.json.encode(call.arguments).decode(),
            },
        }
        for call in answer.calls
    ]


def _about(answer: Answer, asked: Asked, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": 0, "model": asked.model}


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def reply(answer: Answer, asked: Asked) -> bytes:
    """The answer as one completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer), "logprobs": None}
    return msgspec.json.encode(
        {**_about(answer, asked, "chat.completion"), "choices": [choice], "usage": _USAGE}
    )


def stream(answer: Answer, asked: Asked) -> bytes:
    """The answer as chunks, and the mark that ends them."""
    about = _about(answer, asked, "chat.completion.chunk")
    return (
        b"".join(unnamed({**about, **chunk}) for chunk in _chunks(answer, asked))
        + b"data: [DONE]\n\n"
    )


def _chunks(answer: Answer, asked: Asked) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": answer.text}]
    deltas += [
        {"tool_calls": [{"index": place, **call}]} for place, call in enumerate(_calls(answer))
    ]
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": _reason(answer)}]}
    if asked.with_usage:
        yield {"choices": [], "usage": _USAGE}


def error(_: int, message: str) -> bytes:
    """An error as this provider tells it."""
    told = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "replay_miss",
    }
    return msgspec.json.encode({"error": told})
