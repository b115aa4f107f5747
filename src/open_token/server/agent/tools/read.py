"""Read: lines of a text file, or a picture, from the workspace."""

import base64
import hashlib
from functools import partial
from typing import Annotated, Any, BinaryIO

from msgspec import Meta

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, in_thread, parameters, take
from open_token.server.agent.tools.interface import Json, Place, ToolFault
from open_token.server.workspace import Workspace

MOST_BYTES = 100_000
MOST_PICTURE = 4 << 20
_SNIFFED = 8192
_PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class ReadArguments(Arguments, frozen=True, kw_only=True):
    """Which lines of which file."""

    file_path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    offset: Annotated[int, Meta(ge=1, description="The first line, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=2000, description="How many lines.")] = 2000


class Read:
    """Reads a file."""

    spec = ToolSpec(
        name="Read",
        description="Read lines of a text file in the workspace, or look at a picture (PNG, JPEG, GIF, WebP). "
        "The answer says whether there is more and from which line to go on.",
        parameters=parameters(ReadArguments),
        display_name="Read file",
    )
    is_idempotent = True

    async def run(self, arguments: Json, place: Place) -> Any:
        """The lines; a picture as media; of other files only what they are."""
        asked = take(ReadArguments, arguments, {"path": "file_path"})
        return await in_thread(_read, place.workspace, asked)


def _read(workspace: Workspace, asked: ReadArguments) -> Json:
    with workspace.opened(asked.file_path) as (file, size):
        start = file.read(_SNIFFED)
        file.seek(0)
        if kind := _picture(start):
            return {"file_path": asked.file_path, "media": _media(file, size, kind)}
        if b"\0" in start:
            raise ToolFault(f"this is no text but a binary file of {size} bytes")
        return {"file_path": asked.file_path, **_lines(file, asked), "bytes": size}


def _picture(start: bytes) -> str | None:
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES.items() if start.startswith(magic)), None)


def _media(file: BinaryIO, size: int, kind: str) -> Json:
    if size > MOST_PICTURE:
        raise ToolFault(f"this picture has {size} bytes; at most {MOST_PICTURE} can be looked at")
    data = file.read(MOST_PICTURE)
    return {
        "media_type": kind,
        "encoding": "base64",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "base64": base64.b64encode(data).decode(),
    }


def _lines(file: BinaryIO, asked: ReadArguments) -> Json:
    """The lines asked for; a line without end is met in pieces, so memory stays bounded."""
    line, taken, room, goes_on = 1, [], MOST_BYTES, False
    for piece in iter(partial(file.readline, 1 << 16), b""):
        if line >= asked.offset:
            if line >= asked.offset + asked.limit or room <= 0:
                goes_on = True
                break
            taken.append(piece[:room])
            room -= len(piece)
            if room < 0:
                goes_on = True
                break
        line += piece.endswith(b"\n")
    text = b"".join(taken).decode("utf-8", "replace")
    answer: Json = {"content": text, "start_line": asked.offset}
    if goes_on:
        is_cut = bool(text) and not text.endswith("\n")
        answer |= {"truncated": True, "next_line": line + 1 if is_cut else line}
        if is_cut:
            answer["note"] = f"line {line} is longer than what can be shown; its rest is left out"
    elif not taken and asked.offset > 1:
        answer["note"] = f"the file has no line {asked.offset}"
    return answer
