"""Routes of logins: web pages get a key of their own, which ends with the logout."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response
from msgspec import Struct

from open_token.server.core import logins
from open_token.server.errors import ApiError
from open_token.server.http.auth import ServicesDep, WriteCaller
from open_token.server.http.openapi import Problem, describe_body, describe_response, json_body
from open_token.server.http.responses import json_response
from open_token.server.store.rows import User

router = APIRouter(tags=["keys"])
_USER = {"id": "user_4Hn8pLw2Zs6VdQ0j", "username": "owner", "avatar_url": None, "role": "owner"}
_LOGIN = {"access_token": "sk-ot-v1-...", "token_type": "bearer", "user": _USER}
_CODE = {
    "code": "user_4Hn8pLw2Zs6VdQ0j.9mT2...",
    "state": "x7",
    "client_origin": "https://chat.example",
    "expires_in": logins.CODE_SECONDS,
}
_WRONG_ORIGIN = {"detail": "the code was issued for another origin", "code": "origin"}
_NO_STORE = {"Cache-Control": "no-store"}


class Login(Struct):
    """The key of a login, and its user."""

    access_token: str
    token_type: str
    user: dict[str, Any]


class LoggedOut(Struct):
    """Whether a login was revoked; any other key stays valid."""

    ok: bool
    revoked: bool


class Promised(Struct):
    """A code that a page of this origin can exchange for a login."""

    code: str
    state: str
    client_origin: str
    expires_in: int


class CodeGiven(Struct, forbid_unknown_fields=True):
    """The code, with the state and the origin for which it was issued."""

    code: str
    state: str
    client_origin: str


def _build_login(user: User, key: str) -> Response:
    profile = {"id": user.id, "username": user.name, "avatar_url": None, "role": user.role}
    return json_response(Login(key, "bearer", profile), headers=_NO_STORE)


@router.post("/api/auth/login", responses=describe_response(Login, _LOGIN))
async def login(services: ServicesDep, caller: WriteCaller) -> Response:
    """Exchange a key for one that belongs to this login and is revoked by the logout."""
    return _build_login(caller.user, await logins.login(services, caller))


@router.post("/api/auth/refresh", responses=describe_response(Login, _LOGIN))
async def refresh(services: ServicesDep, caller: WriteCaller) -> Response:
    """Get a new key for a login; the old one is revoked."""
    key = await logins.login(services, caller)
    await logins.logout(services, caller)
    return _build_login(caller.user, key)


@router.post(
    "/api/auth/logout", responses=describe_response(LoggedOut, {"ok": True, "revoked": True})
)
async def logout(services: ServicesDep, caller: WriteCaller) -> Response:
    """Revoke a login and close the connections that use it."""
    return json_response(LoggedOut(True, await logins.logout(services, caller)))


@router.get("/api/auth/sdk/authorize", responses=describe_response(Promised, _CODE))
async def authorize(
    services: ServicesDep,
    caller: WriteCaller,
    client_origin: Annotated[
        str,
        Query(max_length=300, description="The origin of the page; it must be listed in `cors`"),
    ],
    state: Annotated[
        str, Query(max_length=300, description="An opaque value that the page must send again")
    ] = "",
) -> Response:
    """Create a single-use code with which a page of another origin can log in within a minute."""
    code = await logins.create_code(services, caller, client_origin, state)
    return json_response(
        Promised(code, state, client_origin, logins.CODE_SECONDS), headers=_NO_STORE
    )


@router.post(
    "/api/auth/sdk/token",
    responses={
        **describe_response(Login, _LOGIN),
        **describe_response(
            Problem, _WRONG_ORIGIN, "The request came from another origin", status=403
        ),
    },
    openapi_extra=describe_body(
        CodeGiven, {name: _CODE[name] for name in ("code", "state", "client_origin")}
    ),
)
async def token(
    services: ServicesDep,
    given: Annotated[Any, json_body(CodeGiven)],
    origin: Annotated[str | None, Header()] = None,
) -> Response:
    """Exchange a code for a login; browsers must send the request from the origin of the code."""
    # Browsers set the Origin header themselves, so a page cannot forge it.
    if origin is not None and origin != given.client_origin:
        raise ApiError(403, **_WRONG_ORIGIN)
    user, key = await logins.exchange_code(services, given.code, given.state, given.client_origin)
    return _build_login(user, key)
