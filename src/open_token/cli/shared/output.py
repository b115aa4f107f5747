"""Output files: checks before anything is written."""

import os
import re
from itertools import count
from pathlib import Path

from open_token.cli.shared.console import Console
from open_token.errors import OutputError, UsageError
from open_token.sources.source import Source

_SUFFIXES = {
    "json": ".open-token.json",
    "ndjson": ".open-token.ndjson",
    "html": ".html",
    "markdown": ".md",
    "atif": ".atif.json",
    "otel": ".otel.json",
}
_MAX_STEM = 60


def choose_output_name(source: Source, form: str, console: Console) -> str:
    """Return the name of a new file in the working directory, after the source.

    A document of megabytes would flood a terminal, and could not be used afterwards.
    """
    stem = source.path.name.partition(".")[0] if source.path else ""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:_MAX_STEM] or "session"
    return choose_new_name(stem, _SUFFIXES[form], console)


def choose_new_name(stem: str, suffix: str, console: Console) -> str:
    """Return a name that no file in the working directory has."""
    for number in count(1):
        name = f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}"
        if not (console.cwd / name).exists():
            return name
    raise AssertionError("count never ends")


def open_page(path: Path, console: Console) -> None:
    """Open a page in the browser of the user."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        console.warn("no browser could be started; open the file yourself")


def refuse_folder(path: str | None) -> None:
    """Raise if the output file names a folder."""
    if path and os.path.isdir(path):
        raise OutputError(
            "the output is a folder", where=path, help="name a file in it; nothing was written"
        )


def refuse_to_overwrite_source(source: Source, output: str) -> None:
    """Raise if the output is the very file that is read."""
    if source.path and os.path.isfile(output) and os.path.samefile(source.path, output):
        raise UsageError(
            "the output would overwrite the source", where=output, help="choose another name"
        )
