"""Recognize the chat history of aider."""

import re

from open_token.agents.aider import AGENT
from open_token.sources.source import Source

_SESSION_HEADER = re.compile((AGENT.block_separator or "").encode(), re.MULTILINE)


def sniff(source: Source) -> bool:
    """Return whether the input is a text in which a session starts."""
    return source.shape == "text" and _SESSION_HEADER.search(source.head) is not None
