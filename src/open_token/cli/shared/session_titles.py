"""Titles of sessions as lists show them: with secrets masked."""

from collections.abc import Sequence
from dataclasses import replace

from open_token.cli.shared.console import Console
from open_token.context import Context
from open_token.library.discovery import Session, drop_cut_word
from open_token.model.titles import choose_title, shorten
from open_token.options import ExportOptions
from open_token.storage.files import Folders


def mask_titles(titles: Sequence[str | None], console: Console) -> list[str]:
    """Return titles that may be shown; a missing one is empty."""
    from open_token.redaction.text_stream import mask_texts

    cache = Folders.of(console.env).cache
    context = Context(ExportOptions(), rule_cache=cache, engine="keywords")
    masked = mask_texts([drop_cut_word(title or "") for title in titles], context)
    return [shorten(title) for title in masked]


def mask_session_titles(sessions: list[Session], console: Console) -> list[Session]:
    """Return the sessions with masked titles; one in which nothing was said is called by its id."""
    titles = mask_titles([session.title for session in sessions], console)
    masked = []
    for session, title in zip(sessions, titles, strict=True):
        title = choose_title(title, (), session.id)
        if title != session.title:
            session = replace(session, title=title)
        masked.append(session)
    return masked
