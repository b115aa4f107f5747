"""Recognize databases of Kiro CLI and Amazon Q CLI."""

from open_token.sources.source import Source

TABLES = ("conversations_v2", "conversations")
"""The newer table first: it has a row per conversation, the older one a row per folder."""


def sniff(source: Source) -> bool:
    """Return whether it is a database with conversations by folder."""
    return find_table(source) is not None


def find_table(source: Source) -> str | None:
    """Return the table that holds conversations."""
    if source.shape != "sqlite":
        return None
    for table in TABLES:
        if {"key", "value"} <= set(source.tables.get(table, ())):
            return table
    return None
