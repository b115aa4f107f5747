"""The memories that matter for a text, chosen and counted."""

from open_token.server.services import Services
from open_token.server.store.rows import MemoryRow


async def recall(services: Services, owner: str, text: str, limit: int = 5) -> list[MemoryRow]:
    """The memories that have most to do with a text; that they were used is counted."""
    found = await services.store.relevant_memories(owner, text, limit)
    if found:
        await services.store.hit_memories(owner, [row.id for row in found], services.clock.now())
    return found
