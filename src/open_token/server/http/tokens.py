"""Routes that estimate token counts; no tokenizer is downloaded."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.server.agent.context_usage import estimate_text
from open_token.server.http.auth import ReadCaller
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response

router = APIRouter(tags=["tokens"])

TOKENIZER = "estimate"
_MESSAGE_OVERHEAD = 4


class Prompt(Struct, kw_only=True, forbid_unknown_fields=True):
    """A text to count."""

    prompt: str
    model: Annotated[str, Meta(max_length=200)] | None = None


class Messages(Struct, kw_only=True, forbid_unknown_fields=True):
    """Messages to count, with their tools."""

    messages: list[dict[str, Any]]
    model: Annotated[str, Meta(max_length=200)] | None = None
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    """Whether to count the beginning of an answer."""
    enable_thinking: None = None
    """Clients send it as null; a value would have no effect on the count."""


class Counted(Struct, kw_only=True):
    """The token count, in total and by part."""

    tokens: int
    total_tokens: int
    tokenizer: str
    estimated: bool
    model: str | None
    parts: dict[str, int]


def _build_response(parts: dict[str, int], model: str | None) -> Response:
    total = sum(parts.values())
    counted = Counted(
        tokens=total,
        total_tokens=total,
        tokenizer=TOKENIZER,
        estimated=True,
        model=model,
        parts=parts,
    )
    return json_response(counted)


@router.post(
    "/api/sessions/tokenize/prompt",
    responses=describe_response(
        Counted,
        {
            "tokens": 5,
            "total_tokens": 5,
            "tokenizer": TOKENIZER,
            "estimated": True,
            "model": None,
            "parts": {"prompt": 5},
        },
    ),
    openapi_extra=describe_body(Prompt, {"prompt": "Why does it fail?"}),
)
async def prompt(caller: ReadCaller, given: Annotated[Any, json_body(Prompt)]) -> Response:
    """Count the tokens of a text."""
    return _build_response({"prompt": estimate_text(given.prompt)}, given.model)


@router.post(
    "/api/sessions/tokenize/messages",
    responses=describe_response(
        Counted,
        {
            "tokens": 12,
            "total_tokens": 12,
            "tokenizer": TOKENIZER,
            "estimated": True,
            "model": None,
            "parts": {"messages": 12, "tools": 0},
        },
    ),
    openapi_extra=describe_body(
        Messages, {"messages": [{"role": "user", "content": "Why does it fail?"}]}
    ),
)
async def messages(caller: ReadCaller, given: Annotated[Any, json_body(Messages)]) -> Response:
    """Count the tokens of messages and tools."""
    parts = {
        "messages": sum(_count_message(message) for message in given.messages),
        "tools": sum(_count_message(tool) for tool in given.tools or []),
    }
    if given.add_generation_prompt:
        parts["generation_prompt"] = _MESSAGE_OVERHEAD
    return _build_response(parts, given.model)


def _count_message(value: dict[str, Any]) -> int:
    """Estimate the text of a message plus its framing; anything but text counts as JSON."""
    content = value.get("content")
    if isinstance(content, str):
        text = content
    else:
        text = msgspec.json.encode(value).decode()
    return estimate_text(text) + _MESSAGE_OVERHEAD
