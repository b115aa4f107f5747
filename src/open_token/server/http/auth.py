"""Who is asking: the key in the Authorization header, and what it may do."""

from collections.abc import MutableMapping
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from open_token.errors import StoreError
from open_token.server.http.answers import failed_store, refused
from open_token.server.refusals import Refused
from open_token.server.services import Services
from open_token.server.store.rows import Caller

_SHORT = 64 << 10
_bearer = HTTPBearer(auto_error=False, description="An API key: `sk-ot-v1-...`")


async def services_of(request: Request) -> Services:
    """The services of the app that a request came to; async, or it would run in a thread of its
    own."""
    services: Services = request.app.state.services
    return services


async def caller_of(scope: MutableMapping[str, Any], services: Services, key: str | None) -> Caller:
    """Whose key that is; 401 when it is nobody's."""
    caller = await services.store.check_key(key, services.clock.now()) if key else None
    if caller is None:
        raise Refused(
            401, "this needs a valid API key: Authorization: Bearer <key>", "unauthorized"
        )
    scope["open_token.user"] = caller.user.id
    return caller


async def may_read(
    request: Request,
    services: Annotated[Services, Depends(services_of)],
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Whoever has a key."""
    return await caller_of(request.scope, services, given.credentials if given else None)


async def may_write(caller: Annotated[Caller, Depends(may_read)]) -> Caller:
    """Whoever has a key that may change things."""
    if caller.key.scope != "full":
        raise Refused(403, "this key may only read", "read_only")
    return caller


class KeyFirst:
    """Before a long body is read: is there a key at all? The framework reads bodies before it asks
    who sends them."""

    def __init__(self, app: Any, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Let a request through, or refuse it unread."""
        if scope["type"] == "http" and _is_long(scope):
            try:
                await caller_of(scope, self._services, key_of(scope))
            except Refused as problem:
                await (await refused(Request(scope), problem))(scope, receive, send)
                return
            except StoreError as problem:
                await (await failed_store(Request(scope), problem))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def key_of(scope: dict[str, Any]) -> str | None:
    """The key that a request brings."""
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    kind, _, key = given.decode("latin-1").partition(" ")
    return key.strip() if kind.lower() == "bearer" else None


def _is_long(scope: dict[str, Any]) -> bool:
    headers = dict(scope["headers"])
    told = headers.get(b"content-length", b"")
    is_told = told.isdigit() and len(told) < 20
    return int(told) > _SHORT if is_told else b"transfer-encoding" in headers or bool(told)


Serving = Annotated[Services, Depends(services_of)]
Reader = Annotated[Caller, Depends(may_read)]
Writer = Annotated[Caller, Depends(may_write)]
