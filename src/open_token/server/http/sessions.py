"""Routes of sessions: made, listed, changed, deleted, read."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse
from msgspec import Struct, field

from open_token.model.session_types import Session, TurnProjection
from open_token.server import sessions, shares
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.http.openapi import gives, sends, sent, takes
from open_token.server.refusals import missing
from open_token.server.services import Services

router = APIRouter(tags=["sessions"])

_PIECE = 1 << 20
_SESSION = {
    "id": "sess_7Fq2mW9xKc3RtY1b",
    "intent": "Mend the build",
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
_MORE = {
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
    """A part of a user's sessions."""

    items: list[Session]
    total: int
    limit: int
    offset: int
    content_match_truncated: bool


class SessionWhole(Session):
    """A session with what it was made of and who looks at it."""

    solution: Any = None
    primary_skill_snapshot: Any = None
    session_setup: dict[str, Any] = field(default_factory=dict)
    viewer_role: str = "owner"
    env: dict[str, str] = field(default_factory=dict)


class Intent(Struct):
    """Another title; without one nothing changes."""

    intent: str | None = None


class Environment(Struct):
    """What the session's tools find in their environment."""

    env: dict[str, str]


class Pinned(Struct):
    """Whether a session stands first in the list."""

    pinned: bool


class Shared(Struct):
    """Whether a session may be read by whoever has a token of it; `false` takes all tokens back."""

    shared: bool


class MemorySwitch(Struct):
    """Whether the agent is given memories in this session."""

    memory_enabled: bool


class Deleted(Struct):
    """It is gone."""

    deleted: bool


@router.post(
    "/api/sessions",
    responses=gives(Created, {"session_id": _SESSION["id"]}),
    openapi_extra=takes(
        sessions.NewSession, {"intent": "Mend the build", "model": "demo"}, required=False
    ),
)
async def create(
    services: Serving, caller: Writer, given: Annotated[Any, sent(sessions.NewSession)]
) -> Response:
    """Begin a session. Keys that are not known are stored, not refused; all of it may have 256
    KiB."""
    return answer({"session_id": await sessions.create(services, caller, given)})


@router.get(
    "/api/sessions",
    responses=gives(
        SessionList,
        {
            "items": [_SESSION],
            "total": 1,
            "limit": 20,
            "offset": 0,
            "content_match_truncated": False,
        },
        "Pinned ones first, then the newest",
    ),
)
async def listing(
    services: Serving,
    caller: Reader,
    q: Annotated[
        str | None, Query(max_length=1000, description="Words in titles and in what was said")
    ] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    template_id_prefix: Annotated[
        str | None,
        Query(
            max_length=200, description="How the `template_id` begins that a session was made with"
        ),
    ] = None,
) -> Response:
    """List sessions; with `q` those whose title or turns have its words, with `template_id_prefix`
    those made so."""
    return answer(
        await sessions.listed(services, caller.user.id, q, limit, offset, template_id_prefix)
    )


@router.get("/api/sessions/{session_id}", responses=gives(SessionWhole, _SESSION | _MORE))
async def one(services: Serving, caller: Reader, session_id: str) -> Response:
    """One session, with what it was made of."""
    return answer(await sessions.whole(services, caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}",
    responses=gives(Session, _SESSION),
    openapi_extra=takes(Intent, {"intent": "Mend the build"}),
)
async def rename(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(Intent)]
) -> Response:
    """Give a session another title."""
    owner = caller.user.id
    if given.intent is None:
        return answer((await sessions.stored(services, owner, session_id)).body)
    return answer(await sessions.change(services, owner, session_id, intent=given.intent))


@router.delete("/api/sessions/{session_id}", responses=gives(Deleted, {"deleted": True}))
async def delete(
    services: Serving, caller: Writer, session_id: str, delete_workspace: bool = False
) -> Response:
    """Delete a session with its log, turns and shares; its files only with
    `delete_workspace=true`."""
    await sessions.delete(services, caller, session_id, delete_workspace)
    return answer({"deleted": True})


@router.put(
    "/api/sessions/{session_id}/env",
    responses=gives(SessionWhole, _SESSION | _MORE),
    openapi_extra=takes(Environment, {"env": {"STAGE": "test"}}),
)
async def set_env(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(Environment)]
) -> Response:
    """Set the environment of the session's tools; values of names that look secret are never shown
    again."""
    await sessions.set_environment(services, caller.user.id, session_id, given.env)
    return answer(await sessions.whole(services, caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}/pin",
    responses=gives(Session, _SESSION | {"is_pinned": True}),
    openapi_extra=takes(Pinned, {"pinned": True}),
)
async def pin(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(Pinned)]
) -> Response:
    """Put a session first in the list, or back."""
    return answer(
        await sessions.change(services, caller.user.id, session_id, is_pinned=given.pinned)
    )


@router.patch(
    "/api/sessions/{session_id}/sharing",
    responses=gives(Shared, {"shared": True}),
    openapi_extra=takes(Shared, {"shared": True}),
)
async def sharing(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(Shared)]
) -> Response:
    """Allow shares of a session, or take all of them back."""
    await shares.switch(services, caller.user.id, session_id, given.shared)
    return answer({"shared": given.shared})


@router.patch(
    "/api/sessions/{session_id}/memory",
    responses=gives(MemorySwitch, {"memory_enabled": False}),
    openapi_extra=takes(MemorySwitch, {"memory_enabled": False}),
)
async def memory(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(MemorySwitch)]
) -> Response:
    """Switch memories on or off for a session."""
    await sessions.change(services, caller.user.id, session_id, memory_enabled=given.memory_enabled)
    return answer({"memory_enabled": given.memory_enabled})


@router.get("/api/sessions/{session_id}/messages", responses=gives([TurnProjection], [_TURN]))
async def messages(services: Serving, caller: Reader, session_id: str) -> Response:
    """The turns of the current branch, each a whole TurnProjection."""
    return answer(await sessions.messages(services, caller.user.id, session_id))


@router.get(
    "/api/sessions/{session_id}/blobs/{sha256}",
    response_class=Response,
    responses=sends("application/octet-stream", "The bytes"),
)
async def blob(services: Serving, caller: Reader, session_id: str, sha256: str) -> Response:
    """A result that was too long for the log, whole."""
    owner = caller.user.id
    first = await services.store.read_blob(owner, session_id, sha256, 0, _PIECE)
    if first is None:
        raise missing("blob")
    headers = {"Content-Disposition": f'attachment; filename="{sha256}"'}
    if len(first) < _PIECE:
        return Response(first, headers=headers, media_type="application/octet-stream")
    pieces = _pieces(services, owner, session_id, sha256, first)
    return StreamingResponse(pieces, headers=headers, media_type="application/octet-stream")


async def _pieces(
    services: Services, owner: str, session_id: str, sha256: str, piece: bytes | None
) -> AsyncIterator[bytes]:
    place = 0
    while piece:
        yield piece
        place += len(piece)
        piece = await services.store.read_blob(owner, session_id, sha256, place, _PIECE)
