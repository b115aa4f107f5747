"""Reads the OpenAI chat completions dialect: bodies, pairs, lists and lines of messages, saved
streams."""

from importlib import import_module

from open_token.draft import Draft
from open_token.readers._wire_dialect import CHAT, spoken
from open_token.source import Source

TITLE = "OpenAI chat completions (requests, responses, messages, streams)"
PLACES: tuple[str, ...] = ()
SEEN = "requests, responses and streams of 2024 to 2026, also of compatible servers"
CARRIES = "every message and part, calls and results, refusals, alternatives, reasoning texts of compatible servers, usage"
LEAVES = "request settings, log probabilities, fingerprints"


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return spoken(source) == CHAT


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._openai_chat").read(source, draft)
