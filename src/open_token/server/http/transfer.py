"""Routes by which sessions leave and come in."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from open_token.model.session_types import to_builtins
from open_token.options import OPTIONS
from open_token.server import transfer
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.refusals import Refused, bad
from open_token.server.services import Services

router = APIRouter(tags=["transfer"])


def _example(description: str, value: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": description, "content": {"application/json": {"example": value}}}}


_FORMAT = {
    "name": "format",
    "in": "query",
    "description": "what is sent",
    "schema": {"enum": list(transfer.FORMS)},
}
_OPTIONS: list[dict[str, Any]] = [
    {
        "name": option.name,
        "in": "query",
        "description": option.meaning,
        "schema": {"type": "string"}
        if option.free or not option.values
        else {"enum": list(option.values)},
    }
    for option in OPTIONS
]
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the session",
        "content": {
            media_type: {"schema": {"type": "string"}} for media_type in transfer.FORMS.values()
        },
    }
}
_FIELD_BYTES = 1 << 16
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
                            "description": "our zip, or what a reader knows",
                        },
                        "name": {
                            "type": "string",
                            "description": "what the session is to be called",
                        },
                        "conversation": {
                            "type": "string",
                            "description": "which of several conversations: id or number",
                        },
                        "reader": {
                            "type": "string",
                            "description": "the format, where the content does not tell",
                        },
                    },
                }
            }
        },
    }
}
_PREVIEW = _example(
    "what the file would become",
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
                "detail": "a record of another kind",
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
async def export(session_id: str, request: Request, services: Serving, caller: Reader) -> Response:
    """The session as a zip of its Open-Token document, its events and its workspace, or as the
    plain document."""
    parcel = await transfer.export(
        services, caller.user.id, session_id, request.query_params.multi_items()
    )
    headers = {
        "content-length": str(parcel.size),
        "content-disposition": f'attachment; filename="{parcel.name}"',
    }
    return StreamingResponse(parcel.pieces(), media_type=parcel.media_type, headers=headers)


@router.post("/api/sessions/preview-import", responses=_PREVIEW, openapi_extra=_FORM)
async def preview_import(request: Request, services: Serving, caller: Writer) -> Response:
    """What a file would become as a session: which reader knows it, how much it holds, what would
    be lost."""
    async with _upload(request, services) as upload:
        return answer(await transfer.preview(services, upload))


@router.post("/api/sessions/import", responses=_IMPORTED, openapi_extra=_FORM)
async def import_session(request: Request, services: Serving, caller: Writer) -> Response:
    """Make a session of our zip, an Open-Token file, or anything that a reader understands; nothing
    in it is run."""
    async with _upload(request, services) as upload:
        session = await transfer.bring_in(services, caller.user.id, upload)
        return answer({**to_builtins(session), "session_id": session.id})


@contextlib.asynccontextmanager
async def _upload(request: Request, services: Services) -> AsyncIterator[transfer.Upload]:
    """The parts of the form. It is read here and not by the framework, so that the key was asked
    for before."""
    most = services.config.limits.upload_bytes
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise bad("send multipart/form-data with the file in a part `file`", "multipart")
    parser = MultiPartParser(
        request.headers,
        _bounded(request, most),
        max_files=1,
        max_fields=8,
        max_part_size=_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as problem:
        raise bad(f"the form cannot be read: {problem.message}", "multipart") from None
    except ClientDisconnect:
        raise Refused(400, "the upload broke off", "multipart") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise bad("the form has no file in a part `file`", "multipart")
        said = {name: _text(form, name) for name in ("name", "conversation", "reader")}
        yield transfer.Upload(file.file, file.filename, **said)
    finally:
        await form.close()
        for (
            spooled
        ) in parser._files_to_close_on_error:  # the part of a form that was cut off is in no form
            spooled.close()


def _text(form: FormData, name: str) -> str | None:
    value = form.get(name)
    if value is not None and not isinstance(value, str):
        raise bad(f"{name} is text, not a file", "multipart")
    return value or None


async def _bounded(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body, as long as it is not longer than allowed; what says so beforehand is not read at
    all."""
    told = request.headers.get("content-length", "")
    length = 0
    async for piece in request.stream():
        length += len(piece)
        if length > most or (told.isdecimal() and int(told[:20]) > most):
            raise Refused(413, f"an upload may have {most >> 20} MiB", "too_large")
        yield piece
