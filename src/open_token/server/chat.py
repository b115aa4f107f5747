"""What a person can tell an agent: a message, an answer, stop, compact."""

from typing import Any

from open_token.server.refusals import Refused
from open_token.server.services import Services
from open_token.server.store.rows import Caller


class Chat:
    """The commands of `chat:*`, for sockets and tests alike."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def stop(self, caller: Caller, session_id: str) -> dict[str, Any]:
        """Stop the agent."""
        await self._services.journal.state(caller.user.id, session_id)
        return {"status": "ok", "stopped": False}

    async def compact(self, caller: Caller, session_id: str) -> dict[str, Any]:
        """Compact the conversation."""
        await self._services.journal.state(caller.user.id, session_id)
        raise Refused(409, "there is nothing to compact", "nothing_to_compact")
