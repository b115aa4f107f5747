"""Who is asking: the key in the Authorization header, and what it may do."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from open_token.server.refusals import Refused
from open_token.server.services import Services
from open_token.server.store.rows import Caller

_bearer = HTTPBearer(auto_error=False, description="An API key: `sk-ot-v1-...`")


async def services_of(request: Request) -> Services:
    """The services of the app that a request came to; async, or it would run in a thread of its own."""
    services: Services = request.app.state.services
    return services


async def caller_of(request: Request, services: Services, key: str | None) -> Caller:
    """Whose key that is; 401 when it is nobody's."""
    caller = await services.store.check_key(key, services.clock.now()) if key else None
    if caller is None:
        raise Refused(401, "this needs a valid API key: Authorization: Bearer <key>", "unauthorized")
    request.scope["open_token.user"] = caller.user.id
    return caller


async def may_read(
    request: Request,
    services: Annotated[Services, Depends(services_of)],
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Whoever has a key."""
    return await caller_of(request, services, given.credentials if given else None)


async def may_write(caller: Annotated[Caller, Depends(may_read)]) -> Caller:
    """Whoever has a key that may change things."""
    if caller.key.scope != "full":
        raise Refused(403, "this key may only read", "read_only")
    return caller


Serving = Annotated[Services, Depends(services_of)]
Reader = Annotated[Caller, Depends(may_read)]
Writer = Annotated[Caller, Depends(may_write)]
