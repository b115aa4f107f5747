"""Read a Cursor conversation from a transcript, the CLI's store or the editor's database."""

from typing import Any

from open_token.agents.cursor import cli_store, editor_state, transcript
from open_token.agents.cursor.detect import is_store
from open_token.builder.draft import Draft
from open_token.model.document import Found
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    if source.shape != "sqlite":
        transcript.read(source, draft)
    elif is_store(source):
        cli_store.read(source, draft)
    else:
        editor_state.read(source, draft)


def list_conversations(source: Source) -> list[Found]:
    """List the composers and chats of the editor's database, or the one chat of the CLI's."""
    if source.shape != "sqlite":
        return []
    if is_store(source):
        return cli_store.conversations(source)
    return editor_state.conversations(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the composer that a row belongs to; only the editor's database has several."""
    if source.shape != "sqlite" or is_store(source):
        return None
    return editor_state.belongs(source, at, value)
