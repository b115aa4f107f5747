"""Estimates of how many tokens something is, without a tokenizer."""

from typing import Any

import msgspec

from open_token.server.agent.interface import (
    Call,
    Media,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    ToolSpec,
)

_PER_MEDIA = 1000
_DENSE = 0x2E80
"""From here on a character is about a token: the scripts of East Asia."""


def estimate(text: str) -> int:
    """About how many tokens a text is: four characters of most scripts, or one of East Asia's."""
    if text.isascii():
        return (len(text) + 3) // 4
    dense = sum(ord(character) >= _DENSE for character in text)
    return dense + (len(text) - dense + 3) // 4


def estimate_messages(messages: list[Message]) -> int:
    """About how many tokens messages are."""
    return sum(4 + sum(_part(part) for part in message.parts) for message in messages)


def estimate_tools(specs: list[ToolSpec]) -> int:
    """About how many tokens the descriptions of tools are."""
    return sum(
        estimate(spec.name + spec.description) + estimate(_json(spec.parameters)) for spec in specs
    )


def _part(part: Part) -> int:
    if isinstance(part, Text | Thinking):
        return estimate(part.text)
    if isinstance(part, Call):
        return estimate(part.name) + estimate(part.arguments)
    if isinstance(part, Result):
        words = part.content if isinstance(part.content, str) else _json(part.content)
        return estimate(words) + len(part.media) * _PER_MEDIA
    assert isinstance(part, Media)
    return _PER_MEDIA


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
