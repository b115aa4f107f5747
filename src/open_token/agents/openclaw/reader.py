"""Read sessions of OpenClaw as those of Pi."""

from open_token.agents.pi.reader import SessionReader
from open_token.builder.draft import Draft
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft, "OpenClaw").read()
