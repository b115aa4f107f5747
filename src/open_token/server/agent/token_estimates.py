"""Token counts estimated without a tokenizer."""

from typing import Any

import msgspec

from open_token.server.agent.model_interface import (
    Attachment,
    Call,
    Media,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    ToolSpec,
)
from open_token.server.agent.models.inputs import get_file_kind

_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_MEDIA = 1000
_MAX_ATTACHMENT_TOKENS = 7_500
"""A long text is cut in the middle before a model sees it."""
_FIRST_DENSE_CHARACTER = 0x2E80
"""From here on a character is about one token: the scripts of East Asia."""


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text: one for four characters, or for one of East Asian scripts."""
    if text.isascii():
        return (len(text) + 3) // 4
    dense = sum(ord(character) >= _FIRST_DENSE_CHARACTER for character in text)
    return dense + (len(text) - dense + 3) // 4


def estimate_messages(messages: list[Message]) -> int:
    """Estimate the tokens of messages."""
    total = 0
    for message in messages:
        total += _TOKENS_PER_MESSAGE + sum(_estimate_part(part) for part in message.parts)
    return total


def estimate_tools(specs: list[ToolSpec]) -> int:
    """Estimate the tokens of the descriptions of tools."""
    total = 0
    for spec in specs:
        total += estimate_text(spec.name + spec.description)
        total += estimate_text(_to_json(spec.parameters))
    return total


def _estimate_part(part: Part) -> int:
    if isinstance(part, Text | Thinking):
        return estimate_text(part.text)
    if isinstance(part, Call):
        return estimate_text(part.name) + estimate_text(part.arguments)
    if isinstance(part, Result):
        if isinstance(part.content, str):
            text = part.content
        else:
            text = _to_json(part.content)
        return estimate_text(text) + len(part.media) * _TOKENS_PER_MEDIA
    if isinstance(part, Attachment):
        return _estimate_attachment(part)
    assert isinstance(part, Media)
    return _TOKENS_PER_MEDIA


def _estimate_attachment(part: Attachment) -> int:
    if part.text is not None:
        return estimate_text(part.text)
    if get_file_kind(part.media_type) != "text":
        return _TOKENS_PER_MEDIA
    return min((part.size + 3) // 4, _MAX_ATTACHMENT_TOKENS)


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
