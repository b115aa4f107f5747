"""Routes of memories."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.session_types import Memory, MemoryType, RecordType
from open_token.server import memories
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.http.openapi import gives, sent, takes
from open_token.server.store.rows import MemoryFilter

router = APIRouter(tags=["memories"])

Content = Annotated[str, Meta(min_length=1, max_length=memories.LONGEST)]
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
    "source_session": None,
}


class MemoryFields(Struct, kw_only=True):
    """What a person says of a memory; what it supersedes is not used any more."""

    content: Content
    type: MemoryType = "feedback"
    skill_name: Word | None = None
    record_type: RecordType | None = None
    scope: Word | None = None
    owner: Word | None = None
    topic: Word | None = None
    mem0_id: Word | None = None
    write_reason: Word | None = None
    disabled: bool = False
    supersedes: Annotated[list[Number], Meta(max_length=100)] = []


class Disabled(Struct):
    """Whether a memory is kept from being used."""

    disabled: bool


class Batch(Struct):
    """What is done to several memories at once."""

    action: Literal["delete", "disable", "enable"]
    ids: Annotated[list[Number], Meta(max_length=10_000)]


class MemoryList(Struct):
    """A part of a user's memories, newest first."""

    items: list[Memory]
    total: int
    limit: int
    offset: int


class Done(Struct):
    """It is done."""

    ok: bool


class DoneTo(Struct):
    """It is done to so many."""

    ok: bool
    count: int


@router.post(
    "/api/memories",
    status_code=201,
    responses=gives(Memory, _MEMORY, "What is remembered", status=201),
    openapi_extra=takes(
        MemoryFields, {"content": "Prefers small commits", "type": "feedback", "topic": "style"}
    ),
)
async def create(
    services: Serving, caller: Writer, given: Annotated[Any, sent(MemoryFields)]
) -> Response:
    """Remember something."""
    fields = _fields(given)
    made = await memories.remember(
        services,
        caller.user.id,
        given.content,
        type=given.type,
        supersedes=given.supersedes,
        fields=fields,
    )
    return answer(made, 201)


@router.get(
    "/api/memories",
    responses=gives(MemoryList, {"items": [_MEMORY], "total": 1, "limit": 20, "offset": 0}),
)
async def listing(
    services: Serving,
    caller: Reader,
    keyword: Annotated[
        str | None, Query(max_length=500, description="A part of the content")
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
    which = MemoryFilter(
        keyword=keyword,
        skill_name=skill_name,
        type=type,
        record_type=record_type,
        scope=scope,
        owner=owner,
        topic=topic,
        status=status,
    )
    page = await services.store.memories(caller.user.id, which, limit, offset)
    return answer({"items": page.items, "total": page.total, "limit": limit, "offset": offset})


@router.post(
    "/api/memories/batch",
    responses=gives(DoneTo, {"ok": True, "count": 2}),
    openapi_extra=takes(Batch, {"action": "disable", "ids": [7, 8]}),
)
async def batch(services: Serving, caller: Writer, given: Annotated[Any, sent(Batch)]) -> Response:
    """Delete, disable or enable several memories; tells how many there were."""
    count = await memories.batch(services, caller.user.id, given.action, given.ids)
    return answer({"ok": True, "count": count})


@router.get("/api/memories/{memory_id}", responses=gives(Memory, _MEMORY))
async def one(services: Serving, caller: Reader, memory_id: Id) -> Response:
    """One memory."""
    return answer(await memories.one(services, caller.user.id, memory_id))


@router.put(
    "/api/memories/{memory_id}",
    responses=gives(Memory, _MEMORY),
    openapi_extra=takes(MemoryFields, {"content": "Prefers small commits", "type": "feedback"}),
)
async def replace(
    services: Serving, caller: Writer, memory_id: Id, given: Annotated[Any, sent(MemoryFields)]
) -> Response:
    """Say a memory anew: content, type and what else it is known by."""
    return answer(await memories.change(services, caller.user.id, memory_id, _fields(given)))


@router.patch(
    "/api/memories/{memory_id}",
    responses=gives(Memory, _MEMORY),
    openapi_extra=takes(Disabled, {"disabled": True}),
)
async def switch(
    services: Serving, caller: Writer, memory_id: Id, given: Annotated[Any, sent(Disabled)]
) -> Response:
    """Keep a memory from being used, or let it be used again."""
    return answer(
        await memories.change(services, caller.user.id, memory_id, {"disabled": given.disabled})
    )


@router.delete("/api/memories/{memory_id}", responses=gives(Done, {"ok": True}))
async def forget(services: Serving, caller: Writer, memory_id: Id) -> Response:
    """Forget a memory."""
    await memories.forget(services, caller.user.id, memory_id)
    return answer({"ok": True})


def _fields(given: MemoryFields) -> dict[str, Any]:
    return {
        name: getattr(given, name)
        for name in MemoryFields.__struct_fields__
        if name != "supersedes"
    }
