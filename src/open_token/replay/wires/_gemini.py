"""Gemini API: contents with parts, calls that may have no ids, whole chunks without names."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.replay.asked import Answer, Asked, Got, Item, Made, Said, Tool
from open_token.replay.plain import MEDIA, flat, is_media, list_of, object_of, text_of
from open_token.replay.wires._events import unnamed

_USAGE = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}


def read(body: dict[str, Any], target: str) -> Asked:
    """The request; which model and whether it is a stream stands in its path."""
    items: list[Item] = []
    for content in map(object_of, list_of(body.get("contents"))):
        for part in map(object_of, list_of(content.get("parts"))):
            items += _items(part, is_model=content.get("role") == "model")
    path, _, query = target.partition("?")
    settings = object_of(_either(body, "generationConfig"))
    schema = _either(settings, "responseJsonSchema") or _either(settings, "responseSchema")
    limit = _either(settings, "maxOutputTokens")
    is_stream = path.endswith(":streamGenerateContent")
    return Asked(
        "gemini",
        path.rpartition("/")[2].partition(":")[0],
        is_stream,
        items,
        list(_tools(list_of(body.get("tools")))),
        flat(object_of(_either(body, "systemInstruction")).get("parts")),
        schema,
        is_form=bool(schema) or _either(settings, "responseMimeType") == "application/json",
        limit=limit if isinstance(limit, int) else None,
        is_listed=is_stream and "alt=sse" not in query,
    )


def _either(value: dict[str, Any], name: str) -> Any:
    """A field under its usual name, or under the one with underscores that the service takes as
    well."""
    other = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(other))


def _items(part: dict[str, Any], *, is_model: bool) -> Iterator[Item]:
    call, response = (
        object_of(_either(part, "functionCall")),
        object_of(_either(part, "functionResponse")),
    )
    if call:
        yield Made(text_of(call.get("id")), text_of(call.get("name")), call.get("args") or {})
    elif response:
        yield Got(
            text_of(response.get("id")),
            text_of(response.get("name")),
            flat(response.get("response")),
        )
    elif is_media(part) and not is_model:
        yield Said("user", MEDIA)
    elif part.get("thought") is not True and (text := text_of(part.get("text"))):
        yield Said("model" if is_model else "user", text)


def _tools(tools: list[Any]) -> Iterator[Tool]:
    for tool in map(object_of, tools):
        for told in map(object_of, list_of(_either(tool, "functionDeclarations"))):
            schema = _either(told, "parametersJsonSchema") or told.get("parameters")
            yield Tool(text_of(told.get("name")), object_of(schema))


def _whole(answer: Answer, asked: Asked) -> dict[str, Any]:
    parts = [
        {"text": part}
        if isinstance(part, str)
        else {"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}}
        for part in answer.parts
    ]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": _USAGE,
        "modelVersion": asked.model,
        "responseId": answer.id,
    }


def reply(answer: Answer, asked: Asked) -> bytes:
    """The answer as one response."""
    return msgspec.json.encode(_whole(answer, asked))


def stream(answer: Answer, asked: Asked) -> bytes:
    """The answer as a stream of one chunk."""
    if asked.is_listed:
        return msgspec.json.encode([_whole(answer, asked)])
    return unnamed(_whole(answer, asked))


def error(status: int, message: str) -> bytes:
    """An error as this provider tells it."""
    return msgspec.json.encode(
        {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
    )
