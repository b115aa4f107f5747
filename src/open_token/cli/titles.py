"""Titles as a list of conversations shows them: secrets masked, as in what is exported."""

import importlib
from collections.abc import Sequence
from dataclasses import replace

from open_token.cli.console import Console
from open_token.context import Context
from open_token.locallib.discovery import Session, drop_cut_word
from open_token.options import ExportOptions
from open_token.storage.files import Folders


def masked_titles(titles: Sequence[str | None], console: Console) -> list[str]:
    """Titles that may be shown; empty where there is none."""
    context = Context(ExportOptions(), rule_cache=Folders.of(console.env).cache, engine="keywords")
    told = [drop_cut_word(title or "") for title in titles]
    masked: list[str] = importlib.import_module("open_token.passes.text").masked(told, context)
    return masked


def with_masked_titles(found: list[Session], console: Console) -> list[Session]:
    """Conversations as a list shows them."""
    titles = masked_titles([session.title for session in found], console)
    return [
        session if title == (session.title or "") else replace(session, title=title)
        for session, title in zip(found, titles, strict=True)
    ]
