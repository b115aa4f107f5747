"""Reads the Gemini API: bodies, pairs, lists and lines of contents, saved streams; also dumps of
its libraries."""

from open_token.formats.shared.api_detection import GEMINI, spoken
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == GEMINI
