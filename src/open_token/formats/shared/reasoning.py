"""Thoughts as runtimes keep them beside a message: under up to four names at once, and in tags
before the words."""

import re
from typing import Any

from open_token.formats.shared.chat_messages import objects
from open_token.formats.shared.responses_content import word

Thought = tuple[str | None, bool]
"""The words (None when sealed), and whether they are a summary."""

_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def thoughts(body: dict[str, Any]) -> list[Thought]:
    """Every thought of a message, each once: the runtime keeps copies of the same words under
    several names."""
    found: list[Thought] = []
    for block in objects(body.get("thinking_blocks")):
        sealed = block.get("type") == "redacted_thinking"
        if sealed or word(block.get("thinking")):
            found.append((None if sealed else word(block.get("thinking")), False))
    item = body.get("responses_reasoning_item")
    if isinstance(item, dict):
        found += _item_thoughts(item)
    for detail in objects(body.get("reasoning_details")) if not found else ():
        text, summary = word(detail.get("text")), word(detail.get("summary"))
        if text or summary or word(detail.get("data")):
            found.append((text or summary, not text and bool(summary)))
    plain = word(body.get("reasoning_content"))
    if plain and not _is_known(plain, found):
        found = [(plain, False), *(thought for thought in found if thought[0] is not None)]
    return found


def _item_thoughts(item: dict[str, Any]) -> list[Thought]:
    words, summary = _texts(item.get("content")), _texts(item.get("summary"))
    if words:
        return [("\n".join(words), False)]
    if summary:
        return [("\n".join(summary), True)]
    return [(None, False)] if word(item.get("encrypted_content")) else []


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _is_known(text: str, found: list[Thought]) -> bool:
    joined = "".join("".join((words or "").split()) for words, _ in found)
    return "".join(text.split()) in joined


def apart(said: str | list[Any], found: list[Thought]) -> tuple[str | list[Any], list[Thought]]:
    """Words without the `<think>` that a model put before them, and the thoughts with it where it
    says more."""
    text = (
        said[0].get("text")
        if isinstance(said, list) and said and isinstance(said[0], dict)
        else said
    )
    match = _THINK.match(text) if isinstance(text, str) else None
    if match is None or not isinstance(text, str):
        return said, found
    inner, rest = match[1].strip(), text[match.end() :]
    if inner and not _is_known(inner, found):
        found = [*found, (inner, False)]
    if isinstance(said, str):
        return rest, found
    return [*([{"type": "text", "text": rest}] if rest else []), *said[1:]], found
