"""Reads the Anthropic Messages API: bodies, pairs, lists and lines of messages, saved streams."""

from importlib import import_module

from open_token.draft import Draft
from open_token.readers._wire_dialect import ANTHROPIC, spoken
from open_token.source import Source

TITLE = "Anthropic Messages API (requests, responses, messages, streams)"
PLACES: tuple[str, ...] = ()
SEEN = "requests, responses and streams of 2024 to 2026, with thinking, server tools, MCP, compaction and web search"
CARRIES = (
    "system prompts, every content block, thinking with its words, calls and results, server tools, usage, "
    "alternatives of a retried request"
)
LEAVES = "cache markers, request settings such as temperature, container ids, citations' positions"


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == ANTHROPIC


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._anthropic_messages").read(source, draft)
