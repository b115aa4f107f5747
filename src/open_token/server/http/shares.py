"""Routes of shares: a session opened for whoever has its token."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.session_types import TurnProjection
from open_token.server import shares
from open_token.server.http.answers import answer
from open_token.server.http.auth import Serving, Writer
from open_token.server.http.openapi import gives, sent, takes

router = APIRouter(tags=["shares"])

_TOKEN = "a token of 43 letters and digits"


class NewShare(Struct, kw_only=True):
    """For how long, and whether thoughts and internal things may be seen too; without a time until
    it is revoked."""

    ttl_seconds: Annotated[int, Meta(ge=1, le=10 * 366 * 86400)] | None = None
    include_thinking: bool = False
    include_internal: bool = False


class Revoked(Struct):
    """The token opens nothing any more."""

    revoked: bool


class SharedSession(Struct):
    """What a token shows."""

    session: dict[str, Any]
    turns: list[TurnProjection]
    read_only: bool
    expires_at: str | None


@router.post(
    "/api/sessions/{session_id}/share",
    responses=gives(
        shares.Opened,
        {
            "token": _TOKEN,
            "url": "https://agents.example/api/share/...",
            "expires_at": "2026-02-01T08:00:00.000Z",
        },
    ),
    openapi_extra=takes(NewShare, {"ttl_seconds": 86400}, required=False),
)
async def create(
    request: Request,
    services: Serving,
    caller: Writer,
    session_id: str,
    given: Annotated[Any, sent(NewShare)],
) -> Response:
    """Open a session for reading; the token is shown once."""
    terms = shares.Terms(
        include_thinking=given.include_thinking, include_internal=given.include_internal
    )
    address = str(request.base_url)
    made = await shares.open_share(
        services, caller.user.id, session_id, given.ttl_seconds, terms, address
    )
    return answer(made, headers={"Cache-Control": "no-store"})


@router.delete(
    "/api/sessions/{session_id}/share/{token}", responses=gives(Revoked, {"revoked": True})
)
async def revoke(services: Serving, caller: Writer, session_id: str, token: str) -> Response:
    """Take a token back."""
    await shares.revoke(services, caller.user.id, session_id, token)
    return answer({"revoked": True})


@router.get(
    "/api/share/{token}",
    responses=gives(
        SharedSession,
        {
            "session": {"id": "sess_7Fq2", "intent": "Mend the build"},
            "turns": [],
            "read_only": True,
            "expires_at": None,
        },
        "The turns, read-only",
    ),
)
async def view(services: Serving, token: str) -> Response:
    """Read a shared session; no key is needed."""
    return answer(await shares.view(services, token), headers={"Cache-Control": "no-store"})
