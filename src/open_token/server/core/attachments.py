"""Files of messages: put into the workspace and the store, and referred to by their hash.

The model is shown the bytes that were sent, whatever becomes of the file in the workspace."""

import asyncio
import hashlib
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from open_token.model.log_events import Json
from open_token.server.agent.models.inputs import (
    FileKind,
    detect_media_type,
    find_size_limit,
    get_file_kind,
    list_accepted,
)
from open_token.server.agent.run_context import RunRequest
from open_token.server.core.chat_request import ChatRequest
from open_token.server.core.message_parts import (
    FilePart,
    decode_file_data,
    parse_file_part,
    to_too_large,
)
from open_token.server.core.services import Services
from open_token.server.core.workspace import Workspace, publish_files_changed
from open_token.server.core.workspace_fs import check_name, split_path
from open_token.server.errors import ApiError, bad_request

FOLDER = "attachments"
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
}
_KIND_NAMES = {"image": "images", "pdf": "PDF documents"}


class _Content(Struct, frozen=True):
    """The bytes of a file, and what is known of them."""

    name: str
    path: str
    data: bytes
    media_type: str
    sha256: str

    @property
    def kind(self) -> FileKind:
        return get_file_kind(self.media_type)


async def store_attachments(
    services: Services, owner: str, request: ChatRequest, order: RunRequest
) -> ChatRequest:
    """Return a message whose files are stored, so that the log has to hold their hashes only.

    Raises an ApiError for a file that is too large, or that the model does not take."""
    if isinstance(request.message, str):
        return request
    _check_addresses(services, request, order)
    workspace = services.workspaces.get(request.session_id)
    remaining = services.config.limits.attachment_bytes
    parts: list[Json] = []
    written: list[str] = []
    for index, part in enumerate(request.message):
        file = parse_file_part(part)
        if file is None:
            parts.append(part)
            continue
        try:
            content = await asyncio.to_thread(_load, workspace, file, remaining)
            _check_accepted(services, content, order)
        except ApiError as problem:
            if problem.code == "too_large":
                raise to_too_large(services.config.limits.attachment_bytes) from None
            raise ApiError(
                problem.status, f"message[{index}]: {problem.detail}", problem.code
            ) from None
        remaining -= len(content.data)
        path = content.path
        if not path and workspace.is_own:
            path, is_new = await asyncio.to_thread(_write, workspace, content)
            if is_new:
                written.append(path)
        await services.store.put_blob(content.data, content.media_type)
        parts.append(_build_reference(content, path, file.detail))
    if written:
        await publish_files_changed(services, owner, request.session_id, "uploaded", *written)
    return msgspec.structs.replace(request, message=parts)


def _check_addresses(services: Services, request: ChatRequest, order: RunRequest) -> None:
    """Raise if an image is given by its address and the model takes no images."""
    accepted = list_accepted(order.model, order.settings, services.config)
    for index, part in enumerate(request.message):
        assert isinstance(part, dict)
        if part["type"] == "image_url" and "image" not in accepted:
            raise _refuse(f"message[{index}]: the model takes no images")


def _load(workspace: Workspace, file: FilePart, limit: int) -> _Content:
    declared = file.media_type
    path = file.path
    if path:
        path = "/".join(split_path(path))
        with workspace.opened(path) as (stream, size):
            if size > limit:
                raise to_too_large(limit)
            data = stream.read(limit + 1)
        name = file.name or PurePosixPath(path).name
    else:
        if len(file.data) > limit // 3 * 4 + 1000:
            raise to_too_large(limit)
        data, url_type = decode_file_data(file.data)
        declared = declared or url_type
        name = file.name.replace("\\", "/").rpartition("/")[2]
    if len(data) > limit:
        raise to_too_large(limit)
    sha256 = hashlib.sha256(data).hexdigest()
    if file.sha256 not in ("", sha256):
        raise bad_request("the file does not have this sha256", "bad_attachment")
    media_type = detect_media_type(data, name, declared)
    if media_type is None:
        raise _refuse(
            "models take text in UTF-8, images (PNG, JPEG, GIF, WebP) and PDF; upload this file to "
            "the workspace and name it in the text, for the tools of the agent"
        )
    if not name:
        name = "file" + _SUFFIXES.get(media_type, ".txt")
    return _Content(name, path, data, media_type, sha256)


def _check_accepted(services: Services, content: _Content, order: RunRequest) -> None:
    kind = content.kind
    if kind == "text":
        return
    if kind not in list_accepted(order.model, order.settings, services.config):
        raise _refuse(
            f"the model takes no {_KIND_NAMES[kind]}; if it does, say so by the setting `accepts`"
        )
    limit = find_size_limit(order.model, kind)
    if limit is not None and len(content.data) > limit:
        raise ApiError(
            413, f"the provider takes images of at most {limit} bytes", "unsupported_attachment"
        )


def _refuse(why: str) -> ApiError:
    return bad_request(why, "unsupported_attachment")


def _write(workspace: Workspace, content: _Content) -> tuple[str, bool]:
    """Write a file to the workspace; return its path, and whether it is new.

    A name that another file has gets a part of the hash."""
    name = PurePosixPath(check_name(content.name))
    for candidate in (str(name), f"{name.stem}-{content.sha256[:12]}{name.suffix}"):
        path = f"{FOLDER}/{check_name(candidate)}"
        existing = _read_existing(workspace, path, len(content.data))
        if existing == content.data:
            return path, False
        if existing is None:
            break
    workspace.write(path, content.data)
    return path, True


def _read_existing(workspace: Workspace, path: str, size: int) -> bytes | None:
    """Return the beginning of a file, which is enough to compare it; None if there is no file."""
    try:
        with workspace.opened(path) as (stream, _):
            return stream.read(size + 1)
    except ApiError as problem:
        if problem.status != 404:
            raise
        return None


def _build_reference(content: _Content, path: str, detail: str) -> Json:
    reference: Json = {"type": "file", "name": content.name}
    if path:
        reference["path"] = path
    reference |= {
        "media_type": content.media_type,
        "bytes": len(content.data),
        "sha256": content.sha256,
    }
    if detail:
        reference["detail"] = detail
    return reference
