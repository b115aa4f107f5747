"""Routes of workspace files, including uploads and folders as zip archives."""

import asyncio
import base64
import binascii
import io
import mimetypes
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, BinaryIO, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, Field

from open_token.server.core.workspace import DirEntry, Workspace, publish_files_changed
from open_token.server.core.workspace_fs import split_path
from open_token.server.errors import ApiError, bad_request, conflict
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller, get_workspace
from open_token.server.http.openapi import describe_model
from open_token.server.http.responses import json_response

router = APIRouter(prefix="/api/sessions/{session_id}", tags=["files"])

_CHUNK_SIZE = 1 << 18
_MAX_UPLOADS = 1000
_MAX_COPIES = 100
_EARLIEST_ZIP_TIME = datetime(1980, 1, 1, tzinfo=UTC).timestamp()
_LATEST_ZIP_TIME = datetime(2107, 12, 31, tzinfo=UTC).timestamp()
_FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-site",
    "Cache-Control": "private, no-cache",
}
"""Files are written by agents: a browser must save them and never open them as a page of this
server."""

_LISTED = {
    "name": "notes.md",
    "path": "docs/notes.md",
    "type": "file",
    "is_dir": False,
    "size": 120,
    "created_at": 1772359200.0,
    "tags": [],
}


class Listed(BaseModel):
    """An entry of a folder."""

    name: str
    path: str
    type: Literal["file", "directory", "link", "other"]
    is_dir: bool
    size: int
    created_at: float
    tags: list[str]


class Written(BaseModel):
    """The file was written."""

    success: bool


class Deleted(BaseModel):
    """The file or folder was deleted."""

    deleted: bool


class NewPath(BaseModel):
    """The new path."""

    path: str


class Uploaded(BaseModel):
    """The written paths, and the names that failed."""

    uploaded: list[str]
    failed: list[str]


class FileContent(BaseModel):
    """The content of a file: text, or bytes as base64."""

    model_config = {
        "extra": "forbid",
        "json_schema_extra": {"examples": [{"content": "# Notes\n"}]},
    }
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"


class NewName(BaseModel):
    """The new name in the same folder."""

    model_config = {
        "extra": "forbid",
        "json_schema_extra": {"examples": [{"new_name": "notes-2.md"}]},
    }
    new_name: Annotated[str, Field(min_length=1, max_length=240)]


@router.get("/ls", include_in_schema=False)
@router.get("/ls/{dir:path}", responses=describe_model(list[Listed], [_LISTED]))
async def list_folder(
    session_id: str, services: ServicesDep, caller: ReadCaller, dir: str = ""
) -> Response:
    """List a folder of the workspace; the root is empty or `.`."""
    workspace = await get_workspace(services, caller, session_id)
    return json_response(await asyncio.to_thread(workspace.list, dir))


@router.get(
    "/files/{path:path}",
    response_class=Response,
    responses={
        200: {
            "content": {"application/octet-stream": {}},
            "description": "The content of the file.",
        }
    },
)
async def read_file(
    session_id: str, path: str, services: ServicesDep, caller: ReadCaller
) -> Response:
    """Download a file of the workspace."""
    workspace = await get_workspace(services, caller, session_id)
    file, size = await asyncio.to_thread(workspace.open, path)
    name = split_path(path)[-1]
    media_type = mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"
    if media_type.startswith("text/"):
        media_type += "; charset=utf-8"
    headers = {
        **_FILE_HEADERS,
        "Content-Length": str(size),
        "Content-Disposition": _content_disposition(name),
    }
    return StreamingResponse(_read_chunks(file, size), media_type=media_type, headers=headers)


@router.put("/files/{path:path}", responses=describe_model(Written, {"success": True}))
async def write_file(
    session_id: str, path: str, body: FileContent, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Write a file; an existing one is replaced."""
    workspace = await get_workspace(services, caller, session_id)
    content = _decode_content(body)
    await services.storage.require_space(caller.user.id, len(content))
    await asyncio.to_thread(workspace.write, path, content)
    await publish_files_changed(
        services, caller.user.id, session_id, "written", _normalize_path(path)
    )
    return json_response({"success": True})


@router.delete("/files/{path:path}", responses=describe_model(Deleted, {"deleted": True}))
async def delete_file(
    session_id: str, path: str, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Delete a file, or a folder with its content."""
    workspace = await get_workspace(services, caller, session_id)
    await asyncio.to_thread(workspace.delete, path)
    await publish_files_changed(
        services, caller.user.id, session_id, "deleted", _normalize_path(path)
    )
    return json_response({"deleted": True})


@router.post(
    "/files/{path:path}/rename", responses=describe_model(NewPath, {"path": "docs/notes-2.md"})
)
async def rename_file(
    session_id: str, path: str, body: NewName, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Rename a file or folder."""
    workspace = await get_workspace(services, caller, session_id)
    new_path = await asyncio.to_thread(workspace.rename, path, body.new_name)
    await publish_files_changed(
        services, caller.user.id, session_id, "renamed", _normalize_path(path), new_path
    )
    return json_response({"path": new_path})


@router.post(
    "/files/{path:path}/copy", responses=describe_model(NewPath, {"path": "docs/notes-2.md"})
)
async def copy_file(
    session_id: str,
    path: str,
    services: ServicesDep,
    caller: WriteCaller,
    body: NewName | None = None,
) -> Response:
    """Copy a file or folder within its folder; without a name `notes.md` becomes `notes_copy.md`."""
    workspace = await get_workspace(services, caller, session_id)
    if body is not None:
        new_path = await asyncio.to_thread(workspace.copy, path, body.new_name)
    else:
        new_path = await asyncio.to_thread(_copy_to_free_name, workspace, path)
    await publish_files_changed(services, caller.user.id, session_id, "copied", new_path)
    return json_response({"path": new_path})


@router.post("/upload", include_in_schema=False)
@router.post(
    "/upload/{dir:path}",
    responses=describe_model(Uploaded, {"uploaded": ["docs/a.txt"], "failed": []}),
)
async def upload_files(
    session_id: str,
    services: ServicesDep,
    caller: WriteCaller,
    files: Annotated[list[UploadFile], File(description="One part per file.")],
    paths: Annotated[
        str | None, Form(description="The target paths as a JSON array; by default the file names.")
    ] = None,
    dir: str = "",
) -> Response:
    """Upload files to a folder; each is written atomically or listed in `failed`."""
    workspace = await get_workspace(services, caller, session_id)
    folder = split_path(dir)
    names = _find_target_names(files, paths)
    await services.storage.require_space(caller.user.id, sum(file.size or 0 for file in files))
    uploaded: list[str] = []
    failed: list[str] = []
    for file, name in zip(files, names, strict=True):
        try:
            path = "/".join((*folder, *split_path(name)))
            await asyncio.to_thread(workspace.write, path, file.file)
            uploaded.append(path)
        except ApiError:
            failed.append(name)
    if uploaded:
        await publish_files_changed(services, caller.user.id, session_id, "uploaded", *uploaded)
    return json_response({"uploaded": uploaded, "failed": failed})


@router.get("/download-dir", include_in_schema=False)
@router.get(
    "/download-dir/{dir:path}",
    response_class=Response,
    responses={
        200: {"content": {"application/zip": {}}, "description": "The folder as a zip archive."}
    },
)
async def download_folder(
    session_id: str, services: ServicesDep, caller: ReadCaller, dir: str = ""
) -> Response:
    """Download a folder as a zip archive, without links."""
    workspace = await get_workspace(services, caller, session_id)
    # A missing folder must be reported before the response starts.
    await asyncio.to_thread(workspace.list, dir)
    name = (split_path(dir) or ("workspace",))[-1]
    headers = {**_FILE_HEADERS, "Content-Disposition": _content_disposition(f"{name}.zip")}
    return StreamingResponse(
        stream_zip(workspace, _normalize_path(dir)), media_type="application/zip", headers=headers
    )


def _copy_to_free_name(workspace: Workspace, path: str) -> str:
    parts = split_path(path)
    name = PurePosixPath(parts[-1] if parts else "")
    for number in range(1, _MAX_COPIES + 1):
        suffix = "_copy" if number == 1 else f"_copy_{number}"
        try:
            return workspace.copy(path, f"{name.stem}{suffix}{name.suffix}")
        except ApiError as problem:
            if problem.code != "exists":
                raise
    raise conflict(f"there are {_MAX_COPIES} copies already; name the next one", "exists")


def _normalize_path(path: str) -> str:
    return "/".join(split_path(path))


def _read_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the announced number of bytes, even if the file grows meanwhile."""
    with file:
        while size > 0 and (chunk := file.read(min(_CHUNK_SIZE, size))):
            size -= len(chunk)
            yield chunk


def _content_disposition(name: str) -> str:
    ascii_name = re.sub(r'[^ -~]|["\\%]', "_", name)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"


def _decode_content(body: FileContent) -> bytes:
    try:
        if body.encoding == "base64":
            return base64.b64decode(body.content, validate=True)
        return body.content.encode()
    except (binascii.Error, ValueError):
        raise bad_request(f"content is not {body.encoding}") from None


def _find_target_names(files: list[UploadFile], paths: str | None) -> list[str]:
    """Return the target of each file: from `paths`, or the name given by the client."""
    if len(files) > _MAX_UPLOADS:
        raise bad_request(f"more than {_MAX_UPLOADS} files")
    if paths:
        try:
            names = msgspec.json.decode(paths, type=list[str])
        except (msgspec.DecodeError, ValueError):
            raise bad_request("paths is not a JSON array of strings") from None
        if len(names) != len(files):
            raise bad_request("paths must have one path for each file")
        return names
    return [(file.filename or "").replace("\\", "/").rpartition("/")[2] for file in files]


class _ZipBuffer(io.RawIOBase):
    """Collects the output of an archive until it is sent; not seekable."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        chunk = bytes(data)  # type: ignore[call-overload]
        self._chunks.append(chunk)
        return len(chunk)

    def take(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data


def stream_zip(workspace: Workspace, folder: str) -> Iterator[bytes]:
    """Yield a zip archive of a folder while it is built; files that vanish are left out."""
    buffer = _ZipBuffer()
    start = len(folder) + 1 if folder else 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in workspace.files(folder):
            name = entry.path[start:]
            if "\\" in name:
                continue  # on Windows it would be unpacked to another folder
            if entry.is_dir:
                archive.writestr(_build_member(name + "/", entry), b"")
            elif entry.type == "file":
                for _ in _add_file(archive, workspace, entry, _build_member(name, entry)):
                    yield buffer.take()
    yield buffer.take()


def _add_file(
    archive: zipfile.ZipFile, workspace: Workspace, entry: DirEntry, info: zipfile.ZipInfo
) -> Iterator[None]:
    """Add a file to an archive; yields after each chunk, so that it can be sent."""
    try:
        opened, _ = workspace.open(entry.path)
    except ApiError:
        return
    with opened as file, archive.open(info, "w", force_zip64=entry.size >= 1 << 31) as out:
        # A file that grows meanwhile is cut at the size of the listing.
        remaining = entry.size
        while remaining > 0 and (chunk := file.read(min(_CHUNK_SIZE, remaining))):
            remaining -= len(chunk)
            out.write(chunk)
            yield
    yield


def _build_member(name: str, entry: DirEntry) -> zipfile.ZipInfo:
    seconds = min(max(entry.created_at, _EARLIEST_ZIP_TIME), _LATEST_ZIP_TIME)
    moment = datetime.fromtimestamp(seconds, UTC)
    info = zipfile.ZipInfo(name, moment.timetuple()[:6])
    info.compress_type = zipfile.ZIP_DEFLATED
    return info
