"""What agents remember for a user."""

from collections.abc import Collection

from open_token.server.services import Services
from open_token.server.store.rows import MemoryRow, NewMemory
from open_token.turns import MemoryType


async def remember(
    services: Services,
    owner: str,
    content: str,
    *,
    type: MemoryType = "experience",
    reason: str | None = None,
    session_id: str | None = None,
    supersedes: Collection[int] = (),
) -> MemoryRow:
    """Keep something in mind; what it supersedes is not used any more."""
    now = services.clock.now()
    memory = NewMemory(content=content, type=type, write_reason=reason, source_session=session_id, created_at=now)
    return await services.store.add_memory(owner, memory, supersedes)
