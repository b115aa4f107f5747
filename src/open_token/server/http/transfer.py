"""Routes by which sessions leave and come in."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from open_token.options import TABLE
from open_token.server import transfer
from open_token.server.http.auth import Reader, Serving

router = APIRouter(tags=["transfer"])

_FORMAT = {"name": "format", "in": "query", "description": "what is sent", "schema": {"enum": list(transfer.FORMS)}}
_OPTIONS: list[dict[str, Any]] = [
    {
        "name": option.name,
        "in": "query",
        "description": option.meaning,
        "schema": {"type": "string"} if option.free or not option.values else {"enum": list(option.values)},
    }
    for option in TABLE
]
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the session",
        "content": {media_type: {"schema": {"type": "string"}} for media_type in transfer.FORMS.values()},
    }
}


@router.get(
    "/api/sessions/{session_id}/export",
    response_class=Response,
    responses=_EXPORT,
    openapi_extra={"parameters": [_FORMAT, *_OPTIONS]},
)
async def export(session_id: str, request: Request, services: Serving, caller: Reader) -> Response:
    """The session as a zip of its Open-Token document, its events and its workspace, or as the plain document."""
    parcel = await transfer.export(services, caller.user.id, session_id, request.query_params.multi_items())
    headers = {"content-length": str(parcel.size), "content-disposition": f'attachment; filename="{parcel.name}"'}
    return StreamingResponse(parcel.pieces(), media_type=parcel.media_type, headers=headers)
