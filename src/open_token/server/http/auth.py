"""Authentication by API key, and the dependencies of routes that need a caller."""

import re
from collections.abc import MutableMapping
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from open_token.errors import StoreError
from open_token.server.core.access_tokens import PREFIX
from open_token.server.core.identity import identify
from open_token.server.core.services import Services
from open_token.server.core.workspace import Workspace
from open_token.server.errors import ApiError, not_found
from open_token.server.http.responses import handle_api_error, handle_store_error
from open_token.server.store.rows import Caller

_MAX_UNCHECKED_BODY = 64 << 10
_COMMON_PATHS = ("/api/auth/me", "/api/config", "/api/config/models")
_SESSION_PATH = re.compile(r"/api/sessions/([^/]+)(?:/([^/]+).*)?", re.DOTALL)
_OWNER_ROUTES = (None, "env", "pin", "share", "sharing", "memory")
"""Parts of a session that a token for it reads and does not change."""
_bearer = HTTPBearer(auto_error=False, description="An API key: `sk-ot-v1-...`")


async def get_services(request: Request) -> Services:
    """Return the services of the application.

    It is a coroutine because FastAPI runs plain functions in a thread."""
    services: Services = request.app.state.services
    return services


async def authenticate(
    scope: MutableMapping[str, Any], services: Services, key: str | None
) -> Caller:
    """Return the caller with this credential; raises a 401 when it is invalid."""
    caller = await identify(services, key) if key else None
    if caller is None:
        raise ApiError(
            401, "a valid API key is required: Authorization: Bearer <key>", "unauthorized"
        )
    if caller.session_id is not None:
        _require_session_route(scope, caller.session_id)
    scope["open_token.user"] = caller.user.id
    return caller


def _require_session_route(scope: MutableMapping[str, Any], session_id: str) -> None:
    """Raise a 403 unless a request stays within the session of its token."""
    if scope["path"] in _COMMON_PATHS and scope["method"] == "GET":
        return
    match = _SESSION_PATH.fullmatch(scope["path"])
    is_owners = scope["method"] != "GET" and match is not None and match[2] in _OWNER_ROUTES
    if match is None or match[1] != session_id or is_owners:
        raise ApiError(403, "this token is for one session only", "token_scope")


async def require_key(
    request: Request,
    services: Annotated[Services, Depends(get_services)],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Require any valid key."""
    key = credentials.credentials if credentials else _find_query_token(request)
    return await authenticate(request.scope, services, key)


def _find_query_token(request: Request) -> str | None:
    """Return the token in the address of an event stream: EventSource cannot send headers.

    API keys are not accepted there, because addresses are logged along the way."""
    if request.method != "GET" or not request.url.path.endswith("/events"):
        return None
    token = request.query_params.get("token", "")
    return token if token.startswith(PREFIX) else None


async def require_write_key(caller: Annotated[Caller, Depends(require_key)]) -> Caller:
    """Require a key that is not read-only."""
    if caller.key.scope != "full":
        raise ApiError(403, "this key is read-only", "read_only")
    return caller


ServicesDep = Annotated[Services, Depends(get_services)]
ReadCaller = Annotated[Caller, Depends(require_key)]
WriteCaller = Annotated[Caller, Depends(require_write_key)]


class AuthBeforeBody:
    """Middleware that authenticates before a large body is read.

    The framework reads bodies before it resolves the dependencies of a route."""

    def __init__(self, app: Any, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass a request on, or reject it without reading its body."""
        if scope["type"] == "http" and _may_have_large_body(scope):
            try:
                await authenticate(scope, self._services, parse_bearer_key(scope))
            except ApiError as problem:
                response = await handle_api_error(Request(scope), problem)
                await response(scope, receive, send)
                return
            except StoreError as problem:
                response = await handle_store_error(Request(scope), problem)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


def parse_bearer_key(scope: dict[str, Any]) -> str | None:
    """Return the key of the Authorization header."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.decode("latin-1").partition(" ")
            return key.strip() if scheme.lower() == "bearer" else None
    return None


def _may_have_large_body(scope: dict[str, Any]) -> bool:
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    if length.isdigit() and len(length) < 20:
        return int(length) > _MAX_UNCHECKED_BODY
    # Chunked, or a length that makes no sense.
    return b"transfer-encoding" in headers or bool(length)


async def get_workspace(services: Services, caller: Caller, session_id: str) -> Workspace:
    """Return the workspace of a session; raises a 404 when the caller has no such session."""
    if await services.store.session(caller.user.id, session_id) is None:
        raise not_found()
    return services.workspaces.get(session_id)
