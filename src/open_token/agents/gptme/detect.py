"""Recognize conversations of gptme, and read the facts that a listing shows of them."""

from typing import Any

from open_token.formats.shared.chat_logs import find_first_words, is_gptme_log
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the lines are messages of gptme."""
    return source.shape == "lines" and is_gptme_log(source.sample)


def peek(records: list[Any]) -> dict[str, str]:
    """Return the first words of a conversation."""
    words = find_first_words(records)
    return {"title": words} if words else {}
