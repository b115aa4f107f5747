"""Routes of logins: a key of its own for a page, and its end."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response
from msgspec import Struct

from open_token.server import logins
from open_token.server.http.answers import answer
from open_token.server.http.auth import Serving, Writer
from open_token.server.http.openapi import Problem, gives, sent, takes
from open_token.server.refusals import Refused
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
_ELSEWHERE = {"detail": "this page is from another origin than the code is for", "code": "origin"}
_ONCE = {"Cache-Control": "no-store"}


class Login(Struct):
    """A key for this login alone, and whose it is."""

    access_token: str
    token_type: str
    user: dict[str, Any]


class LoggedOut(Struct):
    """Whether there was a login to end; a key that was made otherwise stays."""

    ok: bool
    revoked: bool


class Promised(Struct):
    """A code that a page of the origin can have a login for."""

    code: str
    state: str
    client_origin: str
    expires_in: int


class CodeGiven(Struct):
    """The code, and what it was asked for with."""

    code: str
    state: str
    client_origin: str


def _login(user: User, key: str) -> Response:
    whose = {"id": user.id, "username": user.name, "avatar_url": None, "role": user.role}
    return answer(Login(key, "bearer", whose), headers=_ONCE)


@router.post("/api/auth/login", responses=gives(Login, _LOGIN))
async def login(services: Serving, caller: Writer) -> Response:
    """Show a key and get one for this login alone, which may do the same and ends with the
    logout."""
    return _login(caller.user, await logins.login(services, caller))


@router.post("/api/auth/refresh", responses=gives(Login, _LOGIN))
async def refresh(services: Serving, caller: Writer) -> Response:
    """Get a new key for a login; the old one ends."""
    key = await logins.login(services, caller)
    await logins.logout(services, caller)
    return _login(caller.user, key)


@router.post("/api/auth/logout", responses=gives(LoggedOut, {"ok": True, "revoked": True}))
async def logout(services: Serving, caller: Writer) -> Response:
    """End a login, and every connection that was opened with it."""
    return answer(LoggedOut(True, await logins.logout(services, caller)))


@router.get("/api/auth/sdk/authorize", responses=gives(Promised, _CODE))
async def authorize(
    services: Serving,
    caller: Writer,
    client_origin: Annotated[
        str, Query(max_length=300, description="Where the page is from: one that `cors` names")
    ],
    state: Annotated[
        str, Query(max_length=300, description="The page's own word, which it must show again")
    ] = "",
) -> Response:
    """A code with which a page of another origin can log in as you: once, within a minute."""
    code = await logins.authorize(services, caller, client_origin, state)
    return answer(Promised(code, state, client_origin, logins.CODE_SECONDS), headers=_ONCE)


@router.post(
    "/api/auth/sdk/token",
    responses={
        **gives(Login, _LOGIN),
        **gives(Problem, _ELSEWHERE, "Asked from another origin", status=403),
    },
    openapi_extra=takes(
        CodeGiven, {name: _CODE[name] for name in ("code", "state", "client_origin")}
    ),
)
async def token(
    services: Serving,
    given: Annotated[Any, sent(CodeGiven)],
    origin: Annotated[str | None, Header()] = None,
) -> Response:
    """The login that a code stands for. A browser says itself where a page is from: where the code
    is for."""
    if origin is not None and origin != given.client_origin:
        raise Refused(403, **_ELSEWHERE)
    return _login(*await logins.exchange(services, given.code, given.state, given.client_origin))
