"""Routes of export and import."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from open_token.model.session_types import to_builtins
from open_token.options import OPTIONS, Option
from open_token.server.cancellation import cancel_and_wait
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.responses import json_response
from open_token.server.transfers import transfer

router = APIRouter(tags=["transfer"])
_Result = TypeVar("_Result")


def _example(description: str, value: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": description, "content": {"application/json": {"example": value}}}}


def _describe_values(option: Option) -> dict[str, Any]:
    """Return the JSON Schema of an option: one of its values, or any text."""
    if option.free or not option.values:
        return {"type": "string"}
    return {"enum": list(option.values)}


_FORMAT = {
    "name": "format",
    "in": "query",
    "description": "the format of the export",
    "schema": {"enum": list(transfer.MEDIA_TYPES)},
}
_OPTIONS: list[dict[str, Any]] = [
    {
        "name": option.name,
        "in": "query",
        "description": option.meaning,
        "schema": _describe_values(option),
    }
    for option in OPTIONS
]
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the exported session",
        "content": {
            media_type: {"schema": {} if media_type.endswith("json") else {"type": "string"}}
            for media_type in transfer.MEDIA_TYPES.values()
        },
    }
}
_MAX_FIELD_BYTES = 1 << 16
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "an exported zip, or any recognized format",
                        },
                        "name": {
                            "type": "string",
                            "description": "the title of the session",
                        },
                        "conversation": {
                            "type": "string",
                            "description": "which of several conversations: id or number",
                        },
                        "reader": {
                            "type": "string",
                            "description": "the format, if it cannot be detected",
                        },
                    },
                }
            }
        },
    }
}
_PREVIEW = _example(
    "the resulting session",
    {
        "reader": "codex",
        "title": "Fix the build",
        "events": 42,
        "turns": 9,
        "participants": [{"actor_id": "act_001", "kind": "human", "name": "user"}],
        "models": ["gpt-5"],
        "started_at": "2026-01-31T08:00:00Z",
        "warnings": [],
        "loss": [
            {
                "code": "unknown-record",
                "place": "line 7",
                "detail": "unknown record type",
                "count": 2,
            }
        ],
    },
)
_IMPORTED = _example(
    "the new session",
    {"id": "sess_1", "session_id": "sess_1", "intent": "Fix the build", "status": "completed"},
)


@router.get(
    "/api/sessions/{session_id}/export",
    response_class=Response,
    responses=_EXPORT,
    openapi_extra={"parameters": [_FORMAT, *_OPTIONS]},
)
async def export(
    session_id: str, request: Request, services: ServicesDep, caller: ReadCaller
) -> Response:
    """Export a session as a zip with its document, its events and its workspace, or as a plain
    document."""
    exported = await _run_while_connected(
        request,
        transfer.export_session(
            services, caller.user.id, session_id, request.query_params.multi_items()
        ),
    )
    headers = {
        "content-length": str(exported.size),
        "content-disposition": f'attachment; filename="{exported.name}"',
    }
    return StreamingResponse(exported.pieces(), media_type=exported.media_type, headers=headers)


@router.post("/api/sessions/preview-import", responses=_PREVIEW, openapi_extra=_FORM)
async def preview_import(request: Request, services: ServicesDep, caller: WriteCaller) -> Response:
    """Preview an import: the reader, the size of the session, and what would be lost."""
    async with _parse_upload(request, services) as upload:
        preview = transfer.preview_import(services, caller.user.id, upload)
        return json_response(await _run_while_connected(request, preview))


@router.post("/api/sessions/import", responses=_IMPORTED, openapi_extra=_FORM)
async def import_session(request: Request, services: ServicesDep, caller: WriteCaller) -> Response:
    """Import an exported zip, an Open-Token file, or any recognized format; nothing is executed."""
    async with _parse_upload(request, services) as upload:
        imported = transfer.import_session(services, caller.user.id, upload)
        session = await _run_while_connected(request, imported)
        return json_response({**to_builtins(session), "session_id": session.id})


async def _run_while_connected(request: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of `work`; cancel it when the client disconnects."""
    task = asyncio.create_task(work)
    disconnect = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ApiError(400, "the client disconnected", "disconnected")
    finally:
        await cancel_and_wait(disconnect)
        await cancel_and_wait(task)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextlib.asynccontextmanager
async def _parse_upload(request: Request, services: Services) -> AsyncIterator[transfer.Upload]:
    """Parse the form of an upload.

    FastAPI would read it before it checks the key, so it is parsed here."""
    max_bytes = services.config.limits.upload_bytes
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise bad_request("send multipart/form-data with a part `file`", "multipart")
    parser = MultiPartParser(
        request.headers,
        _limit_body(request, max_bytes),
        max_files=1,
        max_fields=8,
        max_part_size=_MAX_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as problem:
        raise bad_request(f"invalid form: {problem.message}", "multipart") from None
    except ClientDisconnect:
        raise ApiError(400, "upload aborted", "multipart") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise bad_request("the form has no file in the part `file`", "multipart")
        fields = {name: _get_text(form, name) for name in ("name", "conversation", "reader")}
        yield transfer.Upload(file.file, file.filename, **fields)
    finally:
        await form.close()
        # An incomplete part is not in the form.
        for spooled in parser._files_to_close_on_error:
            spooled.close()


def _get_text(form: FormData, name: str) -> str | None:
    value = form.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"{name} must be text, not a file", "multipart")
    return value or None


async def _limit_body(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the body; raises a 413 above the limit, or when its announced length is above it."""
    announced = request.headers.get("content-length", "")
    is_too_long = announced.isdecimal() and int(announced[:20]) > max_bytes
    length = 0
    async for chunk in request.stream():
        length += len(chunk)
        if is_too_long or length > max_bytes:
            raise ApiError(413, f"upload exceeds {max_bytes >> 20} MiB", "too_large")
        yield chunk
