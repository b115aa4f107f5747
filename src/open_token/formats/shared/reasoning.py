"""Reasoning that runtimes store with a message: in up to four fields at once, or in tags."""

import re
from typing import Any

from open_token.formats.shared.fields import JsonObject, as_dicts, as_text

ReasoningText = tuple[str | None, bool]
"""The text (None if it is encrypted), and whether it is a summary."""

_THINK_TAG = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def list_reasoning(body: JsonObject) -> list[ReasoningText]:
    """Return the reasoning of a message, each text once, although several fields may hold it."""
    reasoning: list[ReasoningText] = []
    for block in as_dicts(body.get("thinking_blocks")):
        text = as_text(block.get("thinking"))
        if block.get("type") == "redacted_thinking":
            reasoning.append((None, False))
        elif text:
            reasoning.append((text, False))
    item = body.get("responses_reasoning_item")
    if isinstance(item, dict):
        reasoning += _parse_responses_item(item)
    if not reasoning:
        reasoning += _parse_details(body.get("reasoning_details"))
    plain = as_text(body.get("reasoning_content"))
    if plain and not _is_known(plain, reasoning):
        texts = [entry for entry in reasoning if entry[0] is not None]
        reasoning = [(plain, False), *texts]
    return reasoning


def _parse_details(details: Any) -> list[ReasoningText]:
    reasoning: list[ReasoningText] = []
    for detail in as_dicts(details):
        text = as_text(detail.get("text"))
        summary = as_text(detail.get("summary"))
        if text:
            reasoning.append((text, False))
        elif summary:
            reasoning.append((summary, True))
        elif as_text(detail.get("data")):
            reasoning.append((None, False))
    return reasoning


def _parse_responses_item(item: JsonObject) -> list[ReasoningText]:
    content = _list_strings(item.get("content"))
    if content:
        return [("\n".join(content), False)]
    summary = _list_strings(item.get("summary"))
    if summary:
        return [("\n".join(summary), True)]
    # Encrypted reasoning: that there was some is all that can be said.
    if as_text(item.get("encrypted_content")):
        return [(None, False)]
    return []


def _list_strings(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [text for text in value if isinstance(text, str)]


def _is_known(text: str, reasoning: list[ReasoningText]) -> bool:
    """Return whether a text is among others; whitespace does not count."""
    known = "".join(entry or "" for entry, _ in reasoning)
    return _remove_whitespace(text) in _remove_whitespace(known)


def _remove_whitespace(text: str) -> str:
    return "".join(text.split())


def split_think_tag(
    content: str | list[Any], reasoning: list[ReasoningText]
) -> tuple[str | list[Any], list[ReasoningText]]:
    """Move a leading `<think>` element from a content to the reasoning.

    Its text is added unless the reasoning has it already.
    """
    text: Any = content
    if isinstance(content, list) and content and isinstance(content[0], dict):
        text = content[0].get("text")
    match = _THINK_TAG.match(text) if isinstance(text, str) else None
    if match is None:
        return content, reasoning
    thinking = match[1].strip()
    rest = text[match.end() :]
    if thinking and not _is_known(thinking, reasoning):
        reasoning = [*reasoning, (thinking, False)]
    if isinstance(content, str):
        return rest, reasoning
    blocks = [{"type": "text", "text": rest}] if rest else []
    return [*blocks, *content[1:]], reasoning
