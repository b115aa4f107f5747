"""Output files: checks before anything is written."""

import os

from open_token.errors import OutputError, UsageError
from open_token.sources.source import Source


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
