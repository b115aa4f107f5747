"""Images, audio and files next to the conversations of an export, found by id."""

import base64
import re
from typing import Any

from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject
from open_token.jsontools.media import build_media_block
from open_token.sources.source import Source

_MAX_ASSET_BYTES = 1 << 25
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
)
_RIFF_TYPES = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


class Assets:
    """The files of an export by id; nothing is opened before it is asked for.

    `named` finds the id in the path of a file, `beside` finds the files next to a single file.
    """

    def __init__(self, source: Source, named: re.Pattern[str], beside: str = "") -> None:
        self._source = source
        self._id_pattern = named
        self._sibling_glob = beside
        self._files: dict[str, str | Source] | None = None
        """By id: the name of a member, or a file."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a file; None if there is none of that id, or it is very large."""
        file = self._find_files().get(key)
        if file is None:
            return None
        try:
            source = self._source.member(file) if isinstance(file, str) else file
            if source is None or source.size > _MAX_ASSET_BYTES:
                return None
            with source.opened() as stream:
                return bytes(stream.read())
        except InputError:
            return None
        finally:
            # It is in a message now. Keeping each source would need as much memory as the
            # unpacked archive.
            last = self._source.family[-1]
            if last is not self._source and last.name.endswith(f"!{file}"):
                self._source.family.pop()

    def _find_files(self) -> dict[str, str | Source]:
        if self._files is None:
            self._files = {}
            for name, file in self._list_files():
                match = self._id_pattern.search(name)
                if match:
                    self._files.setdefault(match[1], file)
        return self._files

    def _list_files(self) -> list[tuple[str, Any]]:
        source = self._source
        if source.shape == "zip":
            return [(name, name) for name in source.members]
        count = len(source.family)
        if source.shape == "folder":
            files = source.find_files("**/*")
        else:
            files = source.find_siblings(self._sibling_glob)
        del source.family[count:]
        return [(file.path.as_posix() if file.path else "", file) for file in files]


def build_asset_block(data: bytes, kind: str, media_type: str | None = None) -> JsonObject:
    """Return a file as a block of a message."""
    encoded = base64.b64encode(data).decode()
    return build_media_block(media_type or detect_media_type(data), encoded, kind)


def detect_media_type(data: bytes) -> str | None:
    """Return the media type by the first bytes; that of a name depends on the machine."""
    if data[:4] == b"RIFF":
        return _RIFF_TYPES.get(data[8:12])
    if data[4:8] == b"ftyp":
        return "video/mp4"
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    return None
