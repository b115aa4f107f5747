"""Reads the Gemini API: bodies, pairs, lists and lines of contents, saved streams; also dumps of
its libraries."""

from importlib import import_module

from open_token.draft import Draft
from open_token.readers._wire_dialect import GEMINI, spoken
from open_token.source import Source

TITLE = "Gemini API (requests, responses, contents, streams)"
PLACES: tuple[str, ...] = ()
SEEN = "requests, responses and streams of 2025, with thoughts, tools and code execution"
CARRIES = (
    "system instruction, every part, thoughts, calls and results, executed code, candidates, usage"
)
LEAVES = (
    "thought signatures, safety ratings, generation settings, grounding metadata beyond its text"
)


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == GEMINI


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._gemini_api").read(source, draft)
