"""What agents remember for a user: written by people and agents, chosen by words, counted when
used."""

from collections.abc import Collection, Mapping
from typing import Any

from open_token.model.session_types import MemoryType
from open_token.server.refusals import bad, missing
from open_token.server.services import Services
from open_token.server.store.rows import MemoryRow, NewMemory

LONGEST = 500


async def recall(services: Services, owner: str, text: str, limit: int = 5) -> list[MemoryRow]:
    """The memories in use that have most to do with a text, best first; that they were used is
    counted."""
    if not services.config.memory:
        return []
    found = await services.store.find_relevant_memories(owner, text, limit)
    if found:
        await services.store.record_memory_hits(
            owner, [row.id for row in found], services.clock.now()
        )
    return found


async def remember(
    services: Services,
    owner: str,
    content: str,
    *,
    type: MemoryType = "experience",
    reason: str | None = None,
    session_id: str | None = None,
    supersedes: Collection[int] = (),
    fields: Mapping[str, Any] | None = None,
) -> MemoryRow:
    """Keep something in mind; what it supersedes is not used any more."""
    if not content.strip() or len(content) > LONGEST:
        raise bad(f"content: a memory has 1 to {LONGEST} characters", "invalid")
    told = {"write_reason": reason, "source_session": session_id, **(fields or {})}
    memory = NewMemory(
        **{**told, "content": content, "type": type, "created_at": services.clock.now()}
    )
    return await services.store.add_memory(owner, memory, supersedes)


async def one(services: Services, owner: str, memory_id: int) -> MemoryRow:
    """A memory of this user's."""
    row = await services.store.memory(owner, memory_id)
    if row is None:
        raise missing("memory")
    return row


async def change(
    services: Services, owner: str, memory_id: int, changes: Mapping[str, Any]
) -> MemoryRow:
    """Give a memory other values."""
    if "content" in changes and not changes["content"].strip():
        raise bad(f"content: a memory has 1 to {LONGEST} characters", "invalid")
    row = await services.store.change_memory(owner, memory_id, changes, services.clock.now())
    if row is None:
        raise missing("memory")
    return row


async def forget(services: Services, owner: str, memory_id: int) -> None:
    """Forget a memory."""
    if not await services.store.delete_memories(owner, [memory_id]):
        raise missing("memory")


async def batch(services: Services, owner: str, action: str, ids: Collection[int]) -> int:
    """Delete, disable or enable several at once; tells how many there were."""
    if action == "delete":
        return await services.store.delete_memories(owner, ids)
    return await services.store.disable_memories(
        owner, ids, action == "disable", services.clock.now()
    )
