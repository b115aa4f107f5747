"""Anthropic Messages: blocks in messages, events with names."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.replay.asked import Answer, Asked, Got, Item, Made, Said, Tool
from open_token.replay.plain import MEDIA, flat, is_media, list_of, object_of, text_of
from open_token.replay.wires._events import named

_USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def read(body: dict[str, Any], _: str) -> Asked:
    """The request; system entries among the messages are the agent's own and say nothing of the
    place."""
    items: list[Item] = []
    for message in map(object_of, list_of(body.get("messages"))):
        content, role = message.get("content"), message.get("role")
        if role not in ("user", "assistant"):
            continue
        for block in (
            [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
        ):
            items += _items(object_of(block), is_model=role == "assistant")
    form = object_of(
        object_of(body.get("output_config")).get("format") or body.get("output_format")
    )
    limit = body.get("max_tokens")
    return Asked(
        "anthropic",
        text_of(body.get("model")),
        body.get("stream") is True,
        items,
        [_tool(object_of(tool)) for tool in list_of(body.get("tools"))],
        flat(body.get("system")),
        form.get("schema"),
        is_form=bool(form),
        limit=limit if isinstance(limit, int) else None,
    )


def _items(block: dict[str, Any], *, is_model: bool) -> Iterator[Item]:
    kind = block.get("type")
    if kind == "text" and (text := text_of(block.get("text"))):
        yield Said("model" if is_model else "user", text)
    elif kind == "tool_use" and is_model:
        yield Made(text_of(block.get("id")), text_of(block.get("name")), block.get("input"))
    elif is_media(block) and not is_model:
        yield Said("user", MEDIA)
    elif kind == "tool_result":
        yield Got(text_of(block.get("tool_use_id")), "", flat(block.get("content")))


def _tool(tool: dict[str, Any]) -> Tool:
    return Tool(text_of(tool.get("name")), object_of(tool.get("input_schema")))


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}
        for part in answer.parts
    ]


def _message(
    answer: Answer, asked: Asked, content: list[dict[str, Any]], reason: str | None
) -> dict[str, Any]:
    about = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": asked.model}
    return {
        **about,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def reply(answer: Answer, asked: Asked) -> bytes:
    """The answer as one message."""
    return msgspec.json.encode(_message(answer, asked, _blocks(answer), _reason(answer)))


def _reason(answer: Answer) -> str:
    return "tool_use" if answer.calls else "end_turn"


def stream(answer: Answer, asked: Asked) -> bytes:
    """The answer as events."""
    return b"".join(named(event) for event in _events(answer, asked))


def _events(answer: Answer, asked: Asked) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message(answer, asked, [], None)}
    for index, block in enumerate(_blocks(answer)):
        empty: dict[str, Any]
        if block["type"] == "text":
            empty, delta = (
                {"type": "text", "text": ""},
                {"type": "text_delta", "text": block["text"]},
            )
        else:
            given = msgspec.json.encode(block["input"]).decode()
            empty, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": given},
            )
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _reason(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def error(_: int, message: str) -> bytes:
    """An error as this provider tells it."""
    told = {"type": "invalid_request_error", "message": message}
    return msgspec.json.encode({"type": "error", "error": told})
