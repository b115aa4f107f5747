"""A folder as a zip archive that is sent while it is made."""

import io
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime

from open_token.server.clock import moment_of
from open_token.server.refusals import Refused
from open_token.server.workspace import DirEntry, Workspace

_CHUNK = 1 << 18
_OLDEST, _NEWEST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, tzinfo=UTC)
"""The years that a zip can write down."""


class _Sink(io.RawIOBase):
    """Takes what the archive writes until it is sent; the archive cannot go back in it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._pieces.append(piece)
        return len(piece)

    def taken(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


def zipped(workspace: Workspace, folder: str) -> Iterator[bytes]:
    """The archive of a folder, piece by piece, with names as seen from it; a file that vanishes is
    left out."""
    sink = _Sink()
    start = len(folder) + 1 if folder else 0
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in workspace.files(folder):
            name = entry.path[start:]
            if "\\" in name:
                continue  # a step to another folder for whoever unpacks it on Windows
            if entry.is_dir:
                archive.writestr(_info(name + "/", entry), b"")
            elif entry.type == "file":
                for _ in _packed(archive, workspace, entry, _info(name, entry)):
                    yield sink.taken()
    yield sink.taken()


def _packed(
    archive: zipfile.ZipFile, workspace: Workspace, entry: DirEntry, info: zipfile.ZipInfo
) -> Iterator[None]:
    try:
        opened, _ = workspace.open(entry.path)
    except Refused:
        return
    with opened as file, archive.open(info, "w", force_zip64=entry.size >= 1 << 31) as out:
        left = entry.size  # what grows while it is sent is cut where the listing saw its end
        while left > 0 and (piece := file.read(min(_CHUNK, left))):
            left -= len(piece)
            out.write(piece)
            yield
    yield


def _info(name: str, entry: DirEntry) -> zipfile.ZipInfo:
    moment = min(max(moment_of(entry.created_at), _OLDEST), _NEWEST)
    info = zipfile.ZipInfo(name, moment.timetuple()[:6])
    info.compress_type = zipfile.ZIP_DEFLATED
    return info
