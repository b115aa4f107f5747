"""Routes of API keys."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.session_types import ApiKey, to_builtins
from open_token.server import keys
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.http.openapi import gives, sent, takes

router = APIRouter(tags=["keys"])

Name = Annotated[str, Meta(min_length=1, max_length=200)]
_KEY = {
    "id": "key_8Rt2Wq9ZxC4b",
    "name": "laptop",
    "masked": "sk-ot-v1-...9f3K",
    "plaintext": None,
    "created_at": "2026-01-31T08:00:00.000Z",
    "last_used_at": None,
    "scope": "full",
}


class NewKey(Struct, kw_only=True):
    """A name to know it by, and what it may do."""

    name: Name
    scope: Literal["full", "read"] = "full"


class KeyName(Struct):
    """Another name."""

    name: Name


class KeyList(Struct):
    """A user's keys."""

    items: list[ApiKey]
    total: int
    limit: int
    offset: int


@router.post(
    "/api/user/api-keys/",
    status_code=201,
    responses=gives(
        ApiKey, _KEY | {"plaintext": "sk-ot-v1-..."}, "Its plain text, told once", status=201
    ),
    openapi_extra=takes(NewKey, {"name": "laptop", "scope": "read"}),
)
@router.post("/api/user/api-keys", status_code=201, include_in_schema=False)
async def make(services: Serving, caller: Writer, given: Annotated[Any, sent(NewKey)]) -> Response:
    """Make a key. `plaintext` is told here and never again; `key` repeats the rest for older
    clients."""
    made = await keys.make(services, caller, given.name, given.scope)
    again = msgspec.structs.replace(made, plaintext=None)
    return answer(
        {**to_builtins(made), "key": to_builtins(again)}, 201, {"Cache-Control": "no-store"}
    )


@router.get(
    "/api/user/api-keys/",
    responses=gives(KeyList, {"items": [_KEY], "total": 1, "limit": 20, "offset": 0}),
)
@router.get("/api/user/api-keys", include_in_schema=False)
async def listing(
    services: Serving,
    caller: Reader,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
) -> Response:
    """List the keys that can be used, masked."""
    held = await keys.listed(services, caller)
    return answer(
        {
            "items": held[offset : offset + limit],
            "total": len(held),
            "limit": limit,
            "offset": offset,
        }
    )


@router.patch(
    "/api/user/api-keys/{key_id}",
    responses=gives(ApiKey, _KEY),
    openapi_extra=takes(KeyName, {"name": "desktop"}),
)
async def rename(
    services: Serving, caller: Writer, key_id: str, given: Annotated[Any, sent(KeyName)]
) -> Response:
    """Give a key another name."""
    return answer(await keys.rename(services, caller, key_id, given.name))


@router.delete("/api/user/api-keys/{key_id}", status_code=204, response_class=Response)
async def revoke(services: Serving, caller: Writer, key_id: str) -> Response:
    """End a key at once, and every connection that was opened with it."""
    await keys.revoke(services, caller, key_id)
    return Response(status_code=204)
