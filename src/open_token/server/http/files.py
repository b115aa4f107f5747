"""Routes of a session's files: listed, read, written, moved, uploaded, and a folder as one
archive."""

import asyncio
import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator
from typing import Annotated, BinaryIO, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, Field

from open_token.server._paths import parts_of
from open_token.server.http._owned import workspace_of
from open_token.server.http._shown import shown
from open_token.server.http._zips import zipped
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.refusals import Refused, bad
from open_token.server.workspace import tell_changed

router = APIRouter(prefix="/api/sessions/{session_id}", tags=["files"])

_CHUNK = 1 << 18
_MOST_UPLOADED = 1000
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-site",
    "Cache-Control": "private, no-cache",
}
"""What an agent wrote is opened by a browser as a file to keep, and never as a page of this
server."""

_LISTED = {
    "name": "notes.md",
    "path": "docs/notes.md",
    "type": "file",
    "is_dir": False,
    "size": 120,
    "created_at": "2026-03-01T10:00:00.000Z",
    "tags": [],
}


class Listed(BaseModel):
    """One line of a listing."""

    name: str
    path: str
    type: Literal["file", "directory", "link", "other"]
    is_dir: bool
    size: int
    created_at: str
    tags: list[str]


class Written(BaseModel):
    """The file is there."""

    success: bool


class Deleted(BaseModel):
    """The file or folder is gone."""

    deleted: bool


class NewPath(BaseModel):
    """Where it is now."""

    path: str


class Uploaded(BaseModel):
    """The paths that are there now, and the names that could not be."""

    uploaded: list[str]
    failed: list[str]


class FileContent(BaseModel):
    """What a file is to hold: text, or bytes as base64."""

    model_config = {"json_schema_extra": {"examples": [{"content": "# Notes\n"}]}}
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"


class NewName(BaseModel):
    """A name in the same folder."""

    model_config = {"json_schema_extra": {"examples": [{"new_name": "notes-2.md"}]}}
    new_name: Annotated[str, Field(min_length=1, max_length=240)]


@router.get("/ls", include_in_schema=False)
@router.get("/ls/{dir:path}", responses=shown(list[Listed], [_LISTED]))
async def list_folder(
    session_id: str, services: Serving, caller: Reader, dir: str = ""
) -> Response:
    """What a folder of the workspace holds; the root is empty or `.`."""
    workspace = await workspace_of(services, caller, session_id)
    return answer(await asyncio.to_thread(workspace.list, dir))


@router.get(
    "/files/{path:path}",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}, "description": "The bytes of the file."}
    },
)
async def read_file(session_id: str, path: str, services: Serving, caller: Reader) -> Response:
    """A file of the workspace, as something to save."""
    workspace = await workspace_of(services, caller, session_id)
    file, size = await asyncio.to_thread(workspace.open, path)
    name = parts_of(path)[-1]
    kind = mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"
    headers = {**_SAFE, "Content-Length": str(size), "Content-Disposition": _kept_as(name)}
    return StreamingResponse(_pieces(file, size), media_type=_with_charset(kind), headers=headers)


@router.put("/files/{path:path}", responses=shown(Written, {"success": True}))
async def write_file(
    session_id: str, path: str, body: FileContent, services: Serving, caller: Writer
) -> Response:
    """Put a file into the workspace; one that is there is replaced."""
    workspace = await workspace_of(services, caller, session_id)
    await asyncio.to_thread(workspace.write, path, _bytes_of(body))
    await tell_changed(services, caller.user.id, session_id, "written", _plain(path))
    return answer({"success": True})


@router.delete("/files/{path:path}", responses=shown(Deleted, {"deleted": True}))
async def delete_file(session_id: str, path: str, services: Serving, caller: Writer) -> Response:
    """Take a file away, or a folder with all that is in it."""
    workspace = await workspace_of(services, caller, session_id)
    await asyncio.to_thread(workspace.delete, path)
    await tell_changed(services, caller.user.id, session_id, "deleted", _plain(path))
    return answer({"deleted": True})


@router.post("/files/{path:path}/rename", responses=shown(NewPath, {"path": "docs/notes-2.md"}))
async def rename_file(
    session_id: str, path: str, body: NewName, services: Serving, caller: Writer
) -> Response:
    """Give a file or folder another name."""
    workspace = await workspace_of(services, caller, session_id)
    now = await asyncio.to_thread(workspace.rename, path, body.new_name)
    await tell_changed(services, caller.user.id, session_id, "renamed", _plain(path), now)
    return answer({"path": now})


@router.post("/files/{path:path}/copy", responses=shown(NewPath, {"path": "docs/notes-2.md"}))
async def copy_file(
    session_id: str, path: str, body: NewName, services: Serving, caller: Writer
) -> Response:
    """Copy a file or folder beside itself."""
    workspace = await workspace_of(services, caller, session_id)
    now = await asyncio.to_thread(workspace.copy, path, body.new_name)
    await tell_changed(services, caller.user.id, session_id, "copied", now)
    return answer({"path": now})


@router.post("/upload", include_in_schema=False)
@router.post(
    "/upload/{dir:path}", responses=shown(Uploaded, {"uploaded": ["docs/a.txt"], "failed": []})
)
async def upload_files(
    session_id: str,
    services: Serving,
    caller: Writer,
    files: Annotated[list[UploadFile], File(description="One part for each file.")],
    paths: Annotated[
        str | None, Form(description="Where each goes, as a JSON array; else by its own name.")
    ] = None,
    dir: str = "",
) -> Response:
    """Put files into a folder of the workspace; each is there whole or is named in `failed`."""
    workspace = await workspace_of(services, caller, session_id)
    folder = parts_of(dir)
    names = _names(files, paths)
    uploaded: list[str] = []
    failed: list[str] = []
    for file, name in zip(files, names, strict=True):
        try:
            path = "/".join((*folder, *parts_of(name)))
            await asyncio.to_thread(workspace.write, path, file.file)
            uploaded.append(path)
        except Refused:
            failed.append(name)
    if uploaded:
        await tell_changed(services, caller.user.id, session_id, "uploaded", *uploaded)
    return answer({"uploaded": uploaded, "failed": failed})


@router.get("/download-dir", include_in_schema=False)
@router.get(
    "/download-dir/{dir:path}",
    response_class=Response,
    responses={
        200: {"content": {"application/zip": {}}, "description": "The folder as a zip archive."}
    },
)
async def download_folder(
    session_id: str, services: Serving, caller: Reader, dir: str = ""
) -> Response:
    """A folder with all that is in it, as one archive; links are left out."""
    workspace = await workspace_of(services, caller, session_id)
    await asyncio.to_thread(
        workspace.list, dir
    )  # a folder that is not there is told before the archive begins
    name = (parts_of(dir) or ("workspace",))[-1]
    headers = {**_SAFE, "Content-Disposition": _kept_as(f"{name}.zip")}
    return StreamingResponse(
        zipped(workspace, _plain(dir)), media_type="application/zip", headers=headers
    )


def _plain(path: str) -> str:
    return "/".join(parts_of(path))


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The bytes of a file, as many as were announced, whatever becomes of it meanwhile."""
    with file:
        while size > 0 and (piece := file.read(min(_CHUNK, size))):
            size -= len(piece)
            yield piece


def _kept_as(name: str) -> str:
    plain = re.sub(r'[^ -~]|["\\%]', "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _with_charset(kind: str) -> str:
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def _bytes_of(body: FileContent) -> bytes:
    try:
        if body.encoding == "base64":
            return base64.b64decode(body.content, validate=True)
        return body.content.encode()
    except (binascii.Error, ValueError):
        raise bad(f"content is not {body.encoding}") from None


def _names(files: list[UploadFile], paths: str | None) -> list[str]:
    """Where each file goes: by the list that came along, else by the name that its sender gave
    it."""
    if len(files) > _MOST_UPLOADED:
        raise bad(f"at most {_MOST_UPLOADED} files at once")
    if paths:
        try:
            named = msgspec.json.decode(paths, type=list[str])
        except (msgspec.DecodeError, ValueError):
            raise bad("paths is not a JSON array of strings") from None
        if len(named) != len(files):
            raise bad("paths does not have one path for each file")
        return named
    return [(file.filename or "").replace("\\", "/").rpartition("/")[2] for file in files]
