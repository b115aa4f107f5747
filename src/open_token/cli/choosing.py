"""Which conversation is meant: a path, a folder, an id, `last`, the one this process runs in, or
the newest here."""

import os
from importlib import import_module
from typing import cast

import msgspec

from open_token.cli.console import Console
from open_token.errors import UsageError
from open_token.sources.source import Source

FILE_ENDS = (".json", ".jsonl", ".ndjson", ".gz")


class Choice(msgspec.Struct, frozen=True):
    """The source, and how it was found where that is not plain from the command."""

    source: Source
    how: str | None = None
    reader: str | None = None


def choose_source(words: list[str], console: Console, *, current: bool, picking: bool) -> Choice:
    """The source that the words of a command mean."""
    if len(words) > 1:
        raise UsageError(
            f"one conversation at a time, {len(words)} words were given",
            help="options are written key=value or --key value; quote a path with spaces",
        )
    if current + picking + bool(words) > 1:
        raise UsageError("SOURCE, --current and --pick exclude each other", help="keep one of them")
    if words and (choice := _plain(words[0], console)):
        return choice
    # What looks about on this machine is loaded only when a command does not name its file.
    looking = import_module("open_token.cli.looking")
    if current or picking:
        return cast(Choice, looking.running(console) if current else looking.picked(console))
    return cast(Choice, looking.named(words[0], console) if words else looking.newest(console))


def _plain(word: str, console: Console) -> Choice | None:
    """Standard input, or a file by its path."""
    if word == "-":
        return Choice(Source.of_stream(console.stdin, "<stdin>"))
    path = console.cwd / os.path.expanduser(word)
    if os.path.isdir(path):
        return None
    if os.path.exists(path) or "/" in word or path.suffix in FILE_ENDS:
        return Choice(Source.of(path, word))
    return None
