"""Recognize databases of Crush."""

from open_token.formats.shared.session_tables import has_columns
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether it is a database with sessions, and messages that have parts."""
    if source.shape != "sqlite":
        return False
    if not has_columns(source, "sessions", "id", "parent_session_id", "title", "prompt_tokens"):
        return False
    return has_columns(source, "messages", "id", "session_id", "role", "parts", "model")
