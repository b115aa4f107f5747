"""Routes of API keys."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.session_types import ApiKey, to_builtins
from open_token.server.core import keys
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import (
    describe_body,
    describe_list,
    describe_response,
    json_body,
)
from open_token.server.http.responses import json_response, list_response

router = APIRouter(tags=["keys"])

Name = Annotated[str, Meta(min_length=1, max_length=50)]
_KEY = {
    "id": "key_8Rt2Wq9ZxC4b",
    "name": "laptop",
    "masked": "sk-ot-v1-...9f3K",
    "plaintext": None,
    "created_at": "2026-01-31T08:00:00.000Z",
    "last_used_at": None,
    "scope": "full",
}


class NewKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """The name and the scope of a new key."""

    name: Name
    scope: Literal["full", "read"] = "full"


class KeyName(Struct, forbid_unknown_fields=True):
    """The new name of a key."""

    name: Name


@router.post(
    "/api/user/api-keys/",
    status_code=201,
    responses=describe_response(
        ApiKey,
        _KEY | {"plaintext": "sk-ot-v1-..."},
        "The key with its plain text, shown once",
        status=201,
    ),
    openapi_extra=describe_body(NewKey, {"name": "laptop", "scope": "read"}),
)
# Clients call the collection with and without the trailing slash.
@router.post("/api/user/api-keys", status_code=201, include_in_schema=False)
async def make(
    services: ServicesDep, caller: WriteCaller, given: Annotated[Any, json_body(NewKey)]
) -> Response:
    """Create a key. `plaintext` is returned here and never again; `key` repeats the rest for older
    clients."""
    key = await keys.create_key(services, caller, given.name, given.scope)
    without_plaintext = msgspec.structs.replace(key, plaintext=None)
    body = {**to_builtins(key), "key": to_builtins(without_plaintext)}
    return json_response(body, 201, {"Cache-Control": "no-store"})


@router.get(
    "/api/user/api-keys/",
    responses=describe_list(ApiKey, _KEY),
)
@router.get("/api/user/api-keys", include_in_schema=False)
async def listing(
    services: ServicesDep,
    caller: ReadCaller,
    limit: Annotated[int | None, Query(ge=0, le=1000)] = None,
    offset: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
) -> Response:
    """List the valid keys, masked."""
    return list_response(await keys.list_keys(services, caller), limit, offset)


@router.get("/api/user/api-keys/{key_id}", responses=describe_response(ApiKey, _KEY))
async def one(services: ServicesDep, caller: ReadCaller, key_id: str) -> Response:
    """Get a valid key, masked."""
    return json_response(await keys.get_key(services, caller, key_id))


@router.patch(
    "/api/user/api-keys/{key_id}",
    responses=describe_response(ApiKey, _KEY),
    openapi_extra=describe_body(KeyName, {"name": "desktop"}),
)
async def rename(
    services: ServicesDep,
    caller: WriteCaller,
    key_id: str,
    given: Annotated[Any, json_body(KeyName)],
) -> Response:
    """Rename a key."""
    return json_response(await keys.rename_key(services, caller, key_id, given.name))


@router.delete("/api/user/api-keys/{key_id}", status_code=204, response_class=Response)
async def revoke(services: ServicesDep, caller: WriteCaller, key_id: str) -> Response:
    """Revoke a key immediately and close the connections that use it."""
    await keys.revoke_key(services, caller, key_id)
    return Response(status_code=204)
