"""Routes of sessions."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse
from msgspec import Struct, field

from open_token.model.session_types import Session, TurnProjection
from open_token.server.core import sessions, shares
from open_token.server.core.services import Services
from open_token.server.errors import not_found
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import (
    describe_body,
    describe_media,
    describe_response,
    json_body,
)
from open_token.server.http.responses import json_response

router = APIRouter(tags=["sessions"])

_CHUNK_SIZE = 1 << 20
_SESSION = {
    "id": "sess_7Fq2mW9xKc3RtY1b",
    "intent": "Fix the build",
    "status": "created",
    "created_at": "2026-01-31T08:00:00.000Z",
    "updated_at": "2026-01-31T08:00:00.000Z",
    "user_id": "user_4Hn8pLw2Zs6VdQ0j",
    "solution_id": None,
    "biz_role_id": None,
    "model": "demo",
    "shared": False,
    "is_pinned": False,
    "memory_enabled": True,
    "is_persistent": False,
    "replay_state": None,
}
_DETAILS = {
    "solution": None,
    "primary_skill_snapshot": None,
    "session_setup": {"model": "demo"},
    "viewer_role": "owner",
    "env": {"STAGE": "test"},
}
_TURN = {
    "id": "entry_2Lk5",
    "sequence": 0,
    "turn_id": "turn_2Lk5",
    "loop_id": "root",
    "kind": "message",
    "role": "user",
    "status": "completed",
    "blocks": [{"type": "text", "content": "Why does it fail?"}],
    "tool_calls": [],
    "duration_ms": 0,
    "started_at": "2026-01-31T08:00:01.000Z",
    "context_window": 0,
}


class Created(Struct):
    """The id of a new session."""

    session_id: str


class SessionList(Struct):
    """A page of a user's sessions."""

    items: list[Session]
    total: int
    limit: int
    offset: int
    content_match_truncated: bool


class SessionWhole(Session):
    """A session with its setup and the role of the viewer."""

    solution: Any = None
    primary_skill_snapshot: Any = None
    session_setup: dict[str, Any] = field(default_factory=dict)
    viewer_role: str = "owner"
    env: dict[str, str] = field(default_factory=dict)


class Intent(Struct, forbid_unknown_fields=True):
    """The new title; without one nothing changes."""

    intent: str | None = None


class Environment(Struct, forbid_unknown_fields=True):
    """The environment of the session's tools."""

    env: dict[str, str]


class Pinned(Struct, forbid_unknown_fields=True):
    """Whether a session is pinned."""

    pinned: bool


class Shared(Struct, forbid_unknown_fields=True):
    """Whether a session is shared; `false` revokes all its tokens."""

    shared: bool


class MemorySwitch(Struct, forbid_unknown_fields=True):
    """Whether the agent uses memories in this session."""

    memory_enabled: bool


class Deleted(Struct):
    """The session was deleted."""

    deleted: bool


@router.post(
    "/api/sessions",
    responses=describe_response(Created, {"session_id": _SESSION["id"]}),
    openapi_extra=describe_body(
        sessions.NewSession, {"intent": "Fix the build", "model": "demo"}, required=False
    ),
)
async def create(
    services: ServicesDep,
    caller: WriteCaller,
    given: Annotated[Any, json_body(sessions.NewSession)],
) -> Response:
    """Create a session. Unknown keys are refused; the body may have 256 KiB."""
    return json_response({"session_id": await sessions.create_session(services, caller, given)})


@router.get(
    "/api/sessions",
    responses=describe_response(
        SessionList,
        {
            "items": [_SESSION],
            "total": 1,
            "limit": 20,
            "offset": 0,
            "content_match_truncated": False,
        },
        "Pinned sessions first, then the newest",
    ),
)
async def listing(
    services: ServicesDep,
    caller: ReadCaller,
    q: Annotated[
        str | None, Query(max_length=1000, description="Search terms for titles and messages")
    ] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    template_id_prefix: Annotated[
        str | None,
        Query(max_length=200, description="A prefix of the `template_id` of a session"),
    ] = None,
) -> Response:
    """List sessions, optionally filtered by search terms and by template."""
    return json_response(
        await sessions.list_sessions(services, caller.user.id, q, limit, offset, template_id_prefix)
    )


@router.get(
    "/api/sessions/{session_id}", responses=describe_response(SessionWhole, _SESSION | _DETAILS)
)
async def one(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """Get a session with its setup."""
    return json_response(await sessions.get_details(services, caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}",
    responses=describe_response(SessionWhole, _SESSION | _DETAILS),
    openapi_extra=describe_body(Intent, {"intent": "Fix the build"}),
)
async def rename(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(Intent)],
) -> Response:
    """Change the title of a session."""
    owner = caller.user.id
    if given.intent is not None:
        await sessions.update_session(services, owner, session_id, intent=given.intent)
    return json_response(await sessions.get_details(services, owner, session_id))


@router.delete(
    "/api/sessions/{session_id}", responses=describe_response(Deleted, {"deleted": True})
)
async def delete(
    services: ServicesDep, caller: WriteCaller, session_id: str, delete_workspace: bool = False
) -> Response:
    """Delete a session with its log and shares; its files only with `delete_workspace=true`."""
    await sessions.delete_session(services, caller, session_id, delete_workspace)
    return json_response({"deleted": True})


@router.put(
    "/api/sessions/{session_id}/env",
    responses=describe_response(SessionWhole, _SESSION | _DETAILS),
    openapi_extra=describe_body(Environment, {"env": {"STAGE": "test"}}),
)
async def set_env(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(Environment)],
) -> Response:
    """Set the environment of the session's tools; values of secret-looking names are masked."""
    await sessions.set_environment(services, caller.user.id, session_id, given.env)
    return json_response(await sessions.get_details(services, caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}/pin",
    responses=describe_response(SessionWhole, _SESSION | _DETAILS | {"is_pinned": True}),
    openapi_extra=describe_body(Pinned, {"pinned": True}),
)
async def pin(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(Pinned)],
) -> Response:
    """Pin or unpin a session."""
    owner = caller.user.id
    await sessions.update_session(services, owner, session_id, is_pinned=given.pinned)
    return json_response(await sessions.get_details(services, owner, session_id))


@router.patch(
    "/api/sessions/{session_id}/sharing",
    responses=describe_response(Shared, {"shared": True}),
    openapi_extra=describe_body(Shared, {"shared": True}),
)
async def sharing(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(Shared)],
) -> Response:
    """Mark a session as shared, or revoke all its shares."""
    await shares.set_sharing(services, caller.user.id, session_id, given.shared)
    return json_response({"shared": given.shared})


@router.patch(
    "/api/sessions/{session_id}/memory",
    responses=describe_response(MemorySwitch, {"memory_enabled": False}),
    openapi_extra=describe_body(MemorySwitch, {"memory_enabled": False}),
)
async def memory(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(MemorySwitch)],
) -> Response:
    """Enable or disable memories for a session."""
    await sessions.update_session(
        services, caller.user.id, session_id, memory_enabled=given.memory_enabled
    )
    return json_response({"memory_enabled": given.memory_enabled})


@router.get(
    "/api/sessions/{session_id}/messages", responses=describe_response([TurnProjection], [_TURN])
)
async def messages(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """List the turns of the current branch as TurnProjections."""
    return json_response(await sessions.list_messages(services, caller.user.id, session_id))


@router.get(
    "/api/sessions/{session_id}/blobs/{sha256}",
    response_class=Response,
    responses=describe_media("application/octet-stream", "The content of the blob"),
)
async def blob(services: ServicesDep, caller: ReadCaller, session_id: str, sha256: str) -> Response:
    """Get a tool result that was too large for the log."""
    owner = caller.user.id
    first = await services.store.read_blob(owner, session_id, sha256, 0, _CHUNK_SIZE)
    if first is None:
        raise not_found("blob")
    # Content of tools is never shown inline by a browser.
    headers = {"Content-Disposition": f'attachment; filename="{sha256}"'}
    if len(first) < _CHUNK_SIZE:
        return Response(first, headers=headers, media_type="application/octet-stream")
    chunks = _read_chunks(services, owner, session_id, sha256, first)
    return StreamingResponse(chunks, headers=headers, media_type="application/octet-stream")


async def _read_chunks(
    services: Services, owner: str, session_id: str, sha256: str, first: bytes
) -> AsyncIterator[bytes]:
    position = 0
    chunk: bytes | None = first
    while chunk:
        yield chunk
        position += len(chunk)
        chunk = await services.store.read_blob(owner, session_id, sha256, position, _CHUNK_SIZE)
