"""Routes that count tokens; no tokenizer is fetched from anywhere, so they are estimates that say
so."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.server.agent.context_usage import estimate_text
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader
from open_token.server.http.openapi import gives, sent, takes

router = APIRouter(tags=["tokens"])

TOKENIZER = "estimate"


class Prompt(Struct, kw_only=True):
    """A text to be counted."""

    prompt: str
    model: Annotated[str, Meta(max_length=200)] | None = None


class Messages(Struct, kw_only=True):
    """Messages to be counted, and the tools that go with them."""

    messages: list[dict[str, Any]]
    model: Annotated[str, Meta(max_length=200)] | None = None
    tools: list[dict[str, Any]] | None = None


class Counted(Struct, kw_only=True):
    """So many tokens, by which tokenizer."""

    tokens: int
    total_tokens: int
    tokenizer: str
    estimated: bool
    model: str | None
    parts: dict[str, int]


def _counted(parts: dict[str, int], model: str | None) -> Response:
    total = sum(parts.values())
    made = Counted(
        tokens=total,
        total_tokens=total,
        tokenizer=TOKENIZER,
        estimated=True,
        model=model,
        parts=parts,
    )
    return answer(made)


@router.post(
    "/api/sessions/tokenize/prompt",
    responses=gives(
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
    openapi_extra=takes(Prompt, {"prompt": "Why does it fail?"}),
)
async def prompt(caller: Reader, given: Annotated[Any, sent(Prompt)]) -> Response:
    """Count the tokens of a text."""
    return _counted({"prompt": estimate_text(given.prompt)}, given.model)


@router.post(
    "/api/sessions/tokenize/messages",
    responses=gives(
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
    openapi_extra=takes(Messages, {"messages": [{"role": "user", "content": "Why does it fail?"}]}),
)
async def messages(caller: Reader, given: Annotated[Any, sent(Messages)]) -> Response:
    """Count the tokens of messages and tools."""
    parts = {
        "messages": sum(map(_tokens, given.messages)),
        "tools": sum(map(_tokens, given.tools or [])),
    }
    return _counted(parts, given.model)


def _tokens(value: dict[str, Any]) -> int:
    """A message costs its words and a few signs around them; whatever is no text is counted as
    JSON."""
    content = value.get("content")
    words = content if isinstance(content, str) else msgspec.json.encode(value).decode()
    return estimate_text(words) + 4
