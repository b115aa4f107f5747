"""Detection of Open-Token exports."""

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the input is a document with a version, or has a header line."""
    first = source.sample[0] if source.sample else None
    return isinstance(first, dict) and "open_token_version" in first
