"""Reads the OpenAI Responses API: bodies, pairs, lists and lines of items, saved streams."""

from open_token.formats.shared.api_detection import RESPONSES, spoken
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == RESPONSES
