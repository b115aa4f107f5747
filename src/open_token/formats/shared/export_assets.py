"""Images, sounds and files that lie beside the conversations of an export, found by their ids and
put into messages."""

import base64
import re
from typing import Any

from open_token.errors import InputError
from open_token.jsontools.media import build_media_block
from open_token.sources.source import Source

_LARGEST = 1 << 25
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


class Assets:
    """The files of an export by id. `named` finds the id in a file's path; nothing is opened before
    it is asked for."""

    def __init__(self, source: Source, named: re.Pattern[str], beside: str = "") -> None:
        self._source = source
        self._named = named
        self._beside = beside
        self._places: dict[str, Any] | None = None

    def get(self, key: str) -> bytes | None:
        """The bytes of a file; None when the export has none of that id, or a very large one."""
        place = self._found().get(key)
        if place is None:
            return None
        try:
            file = self._source.member(place) if isinstance(place, str) else place
            if file is None or file.size > _LARGEST:
                return None
            with file.opened() as stream:
                return bytes(stream.read())
        except InputError:
            return None
        finally:
            # It stands in a message now; to hold on to each would need as much memory as the
            # archive unpacked.
            if self._source.family[-1] is not self._source and self._source.family[
                -1
            ].name.endswith(f"!{place}"):
                self._source.family.pop()

    def _found(self) -> dict[str, Any]:
        if self._places is None:
            self._places = {}
            for name, place in self._listed():
                if found := self._named.search(name):
                    self._places.setdefault(found[1], place)
        return self._places

    def _listed(self) -> list[tuple[str, Any]]:
        source = self._source
        if source.shape == "zip":
            return [(name, name) for name in source.members]
        before = len(source.family)
        files = (
            source.below("**/*") if source.shape == "folder" else source.neighbours(self._beside)
        )
        del source.family[before:]
        return [(file.path.as_posix() if file.path else "", file) for file in files]


def block_of(data: bytes, kind: str, media_type: str | None = None) -> dict[str, Any]:
    """A file as a block of a message."""
    return build_media_block(media_type or type_of(data), base64.b64encode(data).decode(), kind)


def type_of(data: bytes) -> str | None:
    """The media type that the first bytes tell; names tell it differently on every machine."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return next((name for start, name in _STARTS if data.startswith(start)), None)
