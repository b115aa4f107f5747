"""Reads Open-Token exports, JSON and all three NDJSON line shapes, so that every pass can run again
on an export."""

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """A document with a version, or a header line."""
    first = source.sample[0] if source.sample else None
    return isinstance(first, dict) and "open_token_version" in first
