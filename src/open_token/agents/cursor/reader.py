"""Read a Cursor conversation from a transcript, the CLI's store or the editor's database."""

from typing import Any

from open_token.agents.cursor import cli_store, editor_state, stream, transcript
from open_token.agents.cursor.detect import is_cli_store, is_stream
from open_token.builder.draft import Draft
from open_token.model.document import Found
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    if is_stream(source):
        stream.read_stream(source, draft)
    elif source.shape != "sqlite":
        transcript.read_transcript(source, draft)
    elif is_cli_store(source):
        cli_store.read_chat(source, draft)
    else:
        editor_state.read_composer(source, draft)


def list_conversations(source: Source) -> list[Found]:
    """List the composers and chats of the editor's database, or the one chat of the CLI's."""
    if source.shape != "sqlite":
        return []
    if is_cli_store(source):
        return cli_store.list_chats(source)
    return editor_state.list_composers(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the composer that a row belongs to; only the editor's database has several."""
    if source.shape != "sqlite" or is_cli_store(source):
        return None
    return editor_state.find_owner_of_row(source, at, value)
