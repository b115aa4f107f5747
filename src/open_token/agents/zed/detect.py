"""Recognize the database of Zed's threads."""

from open_token.formats.shared.session_tables import has_columns
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether it is a database with threads, each a document of a named type."""
    if source.shape != "sqlite":
        return False
    return has_columns(source, "threads", "id", "summary", "updated_at", "data_type", "data")
