"""The session that a route is about, if it is the caller's."""

from open_token.server.refusals import missing
from open_token.server.services import Services
from open_token.server.store.rows import Caller
from open_token.server.workspace import Workspace


async def workspace_of(services: Services, caller: Caller, session_id: str) -> Workspace:
    """The files of the caller's session; what is another's is not there."""
    if await services.store.session(caller.user.id, session_id) is None:
        raise missing()
    return services.workspaces.of(session_id)
