"""Reads the OpenAI chat completions dialect: bodies, pairs, lists and lines of messages, saved
streams."""

from open_token.formats.shared.api_detection import CHAT, spoken
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == CHAT
