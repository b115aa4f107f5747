"""Reads the OpenAI Responses API: bodies, pairs, lists and lines of items, saved streams."""

from importlib import import_module

from open_token.draft import Draft
from open_token.readers._wire_dialect import RESPONSES, spoken
from open_token.source import Source

TITLE = "OpenAI Responses API (requests, responses, items, streams)"
PLACES: tuple[str, ...] = ()
SEEN = "requests, responses and streams of 2025 and 2026"
CARRIES = (
    "instructions, every item, reasoning summaries, calls and outputs, hosted tools, MCP, usage"
)
LEAVES = "encrypted reasoning, request settings, log probabilities"


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == RESPONSES


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._openai_responses").read(source, draft)
