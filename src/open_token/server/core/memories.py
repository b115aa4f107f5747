"""Memories of a user: written by people and agents, retrieved by relevance."""

from collections.abc import Collection, Mapping
from typing import Any

from open_token.model.session_types import MemoryType
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request, not_found
from open_token.server.store.rows import MemoryRow, NewMemory

MAX_LENGTH = 500


async def recall(services: Services, owner: str, text: str, limit: int = 5) -> list[MemoryRow]:
    """Return the most relevant enabled memories, best first, and count their use."""
    if not services.config.memory:
        return []
    memories = await services.store.find_relevant_memories(owner, text, limit)
    if memories:
        ids = [row.id for row in memories]
        await services.store.record_memory_hits(owner, ids, services.clock.now())
    return memories


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
    """Store a memory; those that it supersedes are disabled."""
    if not content.strip() or len(content) > MAX_LENGTH:
        raise _length_error()
    values = {
        "write_reason": reason,
        **(fields or {}),
        "content": content,
        "type": type,
        "created_at": services.clock.now(),
    }
    values["source_session"] = session_id or values.get("source_session") or ""
    return await services.store.add_memory(owner, NewMemory(**values), supersedes)


async def get_memory(services: Services, owner: str, memory_id: int) -> MemoryRow:
    """Return a memory of a user."""
    row = await services.store.memory(owner, memory_id)
    if row is None:
        raise not_found("memory")
    return row


async def update_memory(
    services: Services, owner: str, memory_id: int, changes: Mapping[str, Any]
) -> MemoryRow:
    """Change fields of a memory."""
    if "content" in changes and not changes["content"].strip():
        raise _length_error()
    row = await services.store.change_memory(owner, memory_id, changes, services.clock.now())
    if row is None:
        raise not_found("memory")
    return row


async def delete_memory(services: Services, owner: str, memory_id: int) -> None:
    """Delete a memory."""
    if not await services.store.delete_memories(owner, [memory_id]):
        raise not_found("memory")


async def apply_batch(services: Services, owner: str, action: str, ids: Collection[int]) -> int:
    """Delete, disable or enable several memories; returns how many were found."""
    if action == "delete":
        return await services.store.delete_memories(owner, ids)
    is_disabled = action == "disable"
    return await services.store.disable_memories(owner, ids, is_disabled, services.clock.now())


def _length_error() -> ApiError:
    return bad_request(f"content: must have 1 to {MAX_LENGTH} characters", "invalid")
