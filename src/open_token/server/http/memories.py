"""Routes of memories."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.session_types import Memory, MemoryType, RecordType
from open_token.server.core import memories
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response
from open_token.server.store.rows import MemoryFilter

router = APIRouter(tags=["memories"])

Content = Annotated[str, Meta(min_length=1, max_length=memories.MAX_LENGTH)]
Number = Annotated[int, Meta(ge=1, le=1 << 53)]
Word = Annotated[str, Meta(max_length=500)]
Id = Annotated[int, Path(ge=1, le=1 << 53)]
_MEMORY = {
    "id": 7,
    "type": "feedback",
    "content": "Prefers small commits",
    "skill_name": None,
    "record_type": "memory",
    "scope": None,
    "owner": None,
    "topic": "style",
    "mem0_id": None,
    "superseded_by": None,
    "write_reason": None,
    "created_at": "2026-01-31T08:00:00.000Z",
    "updated_at": None,
    "hit_count": 0,
    "last_hit_at": None,
    "disabled": False,
    "source_session": "",
}


class MemoryFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a memory; the memories that it supersedes are disabled."""

    content: Content
    type: MemoryType = "feedback"
    skill_name: Word | None = None
    record_type: RecordType | None = None
    scope: Word | None = None
    owner: Word | None = None
    topic: Word | None = None
    mem0_id: Word | None = None
    write_reason: Word | None = None
    source_session: Word | None = None
    """The session that it was learnt in; empty for a memory that a person wrote."""
    disabled: bool = False
    supersedes: Annotated[list[Number], Meta(max_length=100)] = []


class MemoryChanges(Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields of a memory to change; one that is missing or null stays as it is."""

    content: Content | None = None
    type: MemoryType | None = None
    skill_name: Word | None = None
    record_type: RecordType | None = None
    scope: Word | None = None
    owner: Word | None = None
    topic: Word | None = None
    mem0_id: Word | None = None
    write_reason: Word | None = None
    disabled: bool | None = None


class Disabled(Struct, forbid_unknown_fields=True):
    """Whether a memory is disabled."""

    disabled: bool


class Batch(Struct, forbid_unknown_fields=True):
    """An action on several memories."""

    action: Literal["delete", "disable", "enable"]
    ids: Annotated[list[Number], Meta(max_length=10_000)]


class MemoryList(Struct):
    """A page of a user's memories, newest first."""

    items: list[Memory]
    total: int
    limit: int
    offset: int


class Done(Struct):
    """The action succeeded."""

    ok: bool


class DoneTo(Struct):
    """The action succeeded for this many memories."""

    ok: bool
    count: int


@router.post(
    "/api/memories",
    status_code=201,
    responses=describe_response(Memory, _MEMORY, "The new memory", status=201),
    openapi_extra=describe_body(
        MemoryFields, {"content": "Prefers small commits", "type": "feedback", "topic": "style"}
    ),
)
async def create(
    services: ServicesDep, caller: WriteCaller, given: Annotated[Any, json_body(MemoryFields)]
) -> Response:
    """Create a memory."""
    memory = await memories.remember(
        services,
        caller.user.id,
        given.content,
        type=given.type,
        supersedes=given.supersedes,
        fields=_collect_fields(given),
    )
    return json_response(memory, 201)


@router.get(
    "/api/memories",
    responses=describe_response(
        MemoryList, {"items": [_MEMORY], "total": 1, "limit": 20, "offset": 0}
    ),
)
async def listing(
    services: ServicesDep,
    caller: ReadCaller,
    keyword: Annotated[
        str | None, Query(max_length=500, description="A substring of the content")
    ] = None,
    skill_name: str | None = None,
    type: MemoryType | None = None,
    record_type: RecordType | None = None,
    scope: str | None = None,
    owner: str | None = None,
    topic: str | None = None,
    status: Literal["active", "disabled", "superseded"] | None = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
) -> Response:
    """List memories, newest first."""
    criteria = MemoryFilter(
        keyword=keyword,
        skill_name=skill_name,
        type=type,
        record_type=record_type,
        scope=scope,
        owner=owner,
        topic=topic,
        status=status,
    )
    page = await services.store.memories(caller.user.id, criteria, limit, offset)
    return json_response(
        {"items": page.items, "total": page.total, "limit": limit, "offset": offset}
    )


@router.post(
    "/api/memories/batch",
    responses=describe_response(DoneTo, {"ok": True, "count": 2}),
    openapi_extra=describe_body(Batch, {"action": "disable", "ids": [7, 8]}),
)
async def batch(
    services: ServicesDep, caller: WriteCaller, given: Annotated[Any, json_body(Batch)]
) -> Response:
    """Delete, disable or enable several memories; returns how many were found."""
    count = await memories.apply_batch(services, caller.user.id, given.action, given.ids)
    return json_response({"ok": True, "count": count})


@router.get("/api/memories/{memory_id}", responses=describe_response(Memory, _MEMORY))
async def one(services: ServicesDep, caller: ReadCaller, memory_id: Id) -> Response:
    """Get a memory."""
    return json_response(await memories.get_memory(services, caller.user.id, memory_id))


@router.put(
    "/api/memories/{memory_id}",
    responses=describe_response(Memory, _MEMORY),
    openapi_extra=describe_body(MemoryChanges, {"content": "Prefers small commits"}),
)
async def update(
    services: ServicesDep,
    caller: WriteCaller,
    memory_id: Id,
    given: Annotated[Any, json_body(MemoryChanges)],
) -> Response:
    """Change fields of a memory; those that are missing or null stay as they are."""
    changes = {
        name: value for name, value in msgspec.structs.asdict(given).items() if value is not None
    }
    memory = await memories.update_memory(services, caller.user.id, memory_id, changes)
    return json_response(memory)


@router.patch(
    "/api/memories/{memory_id}",
    responses=describe_response(Memory, _MEMORY),
    openapi_extra=describe_body(Disabled, {"disabled": True}),
)
async def switch(
    services: ServicesDep,
    caller: WriteCaller,
    memory_id: Id,
    given: Annotated[Any, json_body(Disabled)],
) -> Response:
    """Disable or enable a memory."""
    changes = {"disabled": given.disabled}
    memory = await memories.update_memory(services, caller.user.id, memory_id, changes)
    return json_response(memory)


@router.delete("/api/memories/{memory_id}", responses=describe_response(Done, {"ok": True}))
async def forget(services: ServicesDep, caller: WriteCaller, memory_id: Id) -> Response:
    """Delete a memory."""
    await memories.delete_memory(services, caller.user.id, memory_id)
    return json_response({"ok": True})


def _collect_fields(given: MemoryFields) -> dict[str, Any]:
    return {
        name: getattr(given, name)
        for name in MemoryFields.__struct_fields__
        if name != "supersedes"
    }
