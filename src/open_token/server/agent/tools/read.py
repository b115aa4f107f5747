"""Read: return lines of a text file, or an image, from the workspace."""

import base64
import hashlib
from functools import partial
from typing import Annotated, Any, BinaryIO

from msgspec import Meta

from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.models.inputs import detect_image
from open_token.server.agent.tools.arguments import (
    Arguments,
    build_parameters,
    parse_arguments,
    run_in_thread,
)
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError
from open_token.server.core.workspace import Workspace

MAX_BYTES = 100_000
MAX_IMAGE = 4 << 20
_SNIFF_BYTES = 8192
_PIECE_BYTES = 1 << 16


class ReadArguments(Arguments, frozen=True, kw_only=True):
    """Which lines of which file."""

    file_path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    offset: Annotated[int, Meta(ge=1, description="The first line, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=2000, description="How many lines.")] = 2000


class Read:
    """Reads a file."""

    spec = ToolSpec(
        name="Read",
        description="Read lines of a text file in the workspace, or look at a picture (PNG, JPEG, "
        "GIF, WebP). The answer says whether there is more and from which line to go on.",
        parameters=build_parameters(ReadArguments),
        display_name="Read file",
    )
    is_idempotent = True
    is_read_only = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return lines of text or an image; of other files only their type."""
        parsed = parse_arguments(ReadArguments, arguments, {"path": "file_path"})
        return await run_in_thread(_read_file, context.workspace, parsed)


def _read_file(workspace: Workspace, parsed: ReadArguments) -> Json:
    with workspace.opened(parsed.file_path) as (file, size):
        start = file.read(_SNIFF_BYTES)
        file.seek(0)
        media_type = detect_image(start)
        if media_type is not None:
            return {"file_path": parsed.file_path, "media": _read_image(file, size, media_type)}
        if b"\0" in start:
            raise ToolError(f"not a text but a binary file of {size} bytes")
        return {"file_path": parsed.file_path, **_read_lines(file, parsed), "bytes": size}


def _read_image(file: BinaryIO, size: int, media_type: str) -> Json:
    if size > MAX_IMAGE:
        raise ToolError(f"the image has {size} bytes; at most {MAX_IMAGE} can be shown")
    data = file.read(MAX_IMAGE)
    return {
        "media_type": media_type,
        "encoding": "base64",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "base64": base64.b64encode(data).decode(),
    }


def _read_lines(file: BinaryIO, parsed: ReadArguments) -> Json:
    """Return the requested lines; long lines are read in pieces, so memory stays bounded."""
    line = 1
    pieces: list[bytes] = []
    remaining = MAX_BYTES
    has_more = False
    for piece in iter(partial(file.readline, _PIECE_BYTES), b""):
        if line >= parsed.offset:
            # One piece is read too many: it shows that there is more.
            if line >= parsed.offset + parsed.limit or remaining <= 0:
                has_more = True
                break
            pieces.append(piece[:remaining])
            remaining -= len(piece)
            if remaining < 0:
                has_more = True
                break
        if piece.endswith(b"\n"):
            line += 1
    text = b"".join(pieces).decode("utf-8", "replace")
    answer: Json = {"content": text, "start_line": parsed.offset}
    if has_more:
        is_cut = bool(text) and not text.endswith("\n")
        answer |= {"truncated": True, "next_line": line + 1 if is_cut else line}
        if is_cut:
            answer["note"] = f"line {line} is too long to be shown completely"
    elif not pieces and parsed.offset > 1:
        answer["note"] = f"the file has no line {parsed.offset}"
    return answer
