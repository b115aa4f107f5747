"""The zip of a session: its document in both forms, and the files of its workspace; read with every suspicion."""

import os
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from open_token.context import Context
from open_token.pipeline import export
from open_token.source import Source

DOCUMENT = "session.open-token.json"
EVENTS = "events.ndjson"
FILES = "workspace/"
_MOMENT = (1980, 1, 1, 0, 0, 0)
_PIECE = 1 << 18


def pack(source: Source, files: Path, out: BinaryIO, context: Context) -> None:
    """Write the zip of a session; the same log and files give the same bytes."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, mode in ((DOCUMENT, "json"), (EVENTS, "ndjson")):
            options = context.options.changed(mode=mode, pretty=context.options.pretty and mode == "json")
            with made.open(_member(name), "w", force_zip64=True) as member:
                export(source, member, replace(context, options=options), "session_server")  # type: ignore[arg-type]
        for path in _files(files):
            _add(made, path, os.fsencode(path.relative_to(files).as_posix()).decode("utf-8", "replace"))


def _member(name: str, mode: int = 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _MOMENT)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | mode) << 16
    return info


def _files(folder: Path) -> Iterator[Path]:
    """The files of a workspace in order of name; no link is followed and none is taken along."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place) / name
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _add(made: zipfile.ZipFile, path: Path, name: str) -> None:
    """Put one file in; one that was taken away meanwhile is left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        mode = 0o755 if os.fstat(descriptor).st_mode & 0o100 else 0o644
        with made.open(_member(FILES + name, mode), "w", force_zip64=True) as member:
            while piece := stream.read(_PIECE):
                member.write(piece)
