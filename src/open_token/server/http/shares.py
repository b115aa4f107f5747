"""Routes of shares: read-only access to a session by a token."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.server.core import shares
from open_token.server.http.auth import ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response

router = APIRouter(tags=["shares"])

_HEADERS = {"Cache-Control": "no-store", "Vary": "Accept"}
# The page brings its own policy for scripts. Its address holds the token.
_PAGE_HEADERS = {
    **_HEADERS,
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
_TOKEN = "a token of 43 letters and digits"


class NewShare(Struct, kw_only=True, forbid_unknown_fields=True):
    """The lifetime of a share (without one it must be revoked), what it includes, and what is
    masked in it."""

    ttl_seconds: Annotated[int, Meta(ge=1, le=10 * 366 * 86400)] | None = None
    include_thinking: bool = False
    include_internal: bool = False
    redact: Literal["none", "secrets", "pii"] = "secrets"


class Revoked(Struct):
    """The token is no longer valid."""

    revoked: bool


@router.post(
    "/api/sessions/{session_id}/share",
    responses=describe_response(
        shares.Opened,
        {
            "token": _TOKEN,
            "url": "https://agents.example/api/share/...",
            "expires_at": "2026-02-01T08:00:00.000Z",
        },
    ),
    openapi_extra=describe_body(NewShare, {"ttl_seconds": 86400}, required=False),
)
async def create(
    request: Request,
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(NewShare)],
) -> Response:
    """Share a session; the token is shown once."""
    terms = shares.ShareTerms(
        include_thinking=given.include_thinking,
        include_internal=given.include_internal,
        redact=given.redact,
    )
    share = await shares.open_share(
        services, caller.user.id, session_id, given.ttl_seconds, terms, _build_address(request)
    )
    return json_response(share, headers={"Cache-Control": "no-store"})


def _build_address(request: Request) -> str:
    """Return the address on which the server got a request, for links without a public_url.

    The Host header would let whoever sends the request choose where the token is sent."""
    host, port = request.scope.get("server") or ("localhost", None)
    if ":" in host:
        host = f"[{host}]"
    return f"{request.url.scheme}://{host}" + (f":{port}" if port else "")


@router.delete(
    "/api/sessions/{session_id}/share/{token}",
    responses=describe_response(Revoked, {"revoked": True}),
)
async def revoke(
    services: ServicesDep, caller: WriteCaller, session_id: str, token: str
) -> Response:
    """Revoke a token."""
    await shares.revoke_share(services, caller.user.id, session_id, token)
    return json_response({"revoked": True})


_SHARED: dict[int | str, dict[str, Any]] = describe_response(
    {"anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "object"}]},
    [],
    "The turns, read-only; with `details` an object with the session and its `turns`; to a "
    "browser, which asks for text/html, they are a page",
)
_SHARED[200]["content"]["text/html"] = {"schema": {"type": "string"}}


@router.get("/api/share/{token}", responses=_SHARED)
async def view(
    request: Request,
    services: ServicesDep,
    token: str,
    details: Annotated[
        bool, Query(description="Answer with the session, its turns and the end of the share.")
    ] = False,
) -> Response:
    """Read the turns of a shared session; no key is required. A browser gets them as a page."""
    if "text/html" in request.headers.get("accept", ""):
        page = await shares.show_share(services, token)
        return Response(page, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)
    shared = await shares.view_share(services, token)
    return json_response(shared if details else shared["turns"], headers=_HEADERS)
