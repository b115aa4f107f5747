"""Routes of the owner for people and their keys, and of access tokens."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.session_types import ApiKey
from open_token.server.core import access_tokens, keys
from open_token.server.core.access_tokens import MintedToken, NewToken
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, conflict, not_found
from open_token.server.http.auth import ServicesDep, WriteCaller, require_key, require_write_key
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response
from open_token.server.store.interface import ConflictError
from open_token.server.store.rows import Caller, User

router = APIRouter(tags=["users"])

_PERSON = {
    "id": "user_4Hn8pLw2Zs6VdQ0j",
    "username": "anna",
    "role": "user",
    "created_at": "2026-01-31T08:00:00.000Z",
    "disabled_at": None,
}
_KEY = {
    "id": "key_8Rt2Wq9ZxC4b",
    "name": "laptop",
    "masked": "sk-ot-v1-...9f3K",
    "plaintext": None,
    "created_at": "2026-01-31T08:00:00.000Z",
    "last_used_at": None,
    "scope": "full",
}
_TOKEN = {
    "token": "ott1.eyJ1c2VyIjoi...",
    "expires_at": "2026-01-31T09:00:00.000Z",
    "user_id": "user_x5f2b",
    "session_id": None,
    "scope": "full",
}
_NO_STORE = {"Cache-Control": "no-store"}


class Person(Struct, kw_only=True):
    """A person on the server."""

    id: str
    username: str
    role: str
    created_at: str
    disabled_at: str | None


class PersonList(Struct, kw_only=True):
    """A page of the people on the server."""

    items: list[Person]
    total: int
    limit: int
    offset: int


class NewPerson(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new person."""

    username: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class PersonChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether a person is locked out; sessions and keys are kept."""

    disabled: bool


class PersonKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """The name and the scope of a new key."""

    name: Annotated[str, Meta(min_length=1, max_length=50)]
    scope: Literal["full", "read"] = "full"


class PersonDeleted(Struct):
    """The person was deleted."""

    deleted: bool


async def _require_owner(caller: Annotated[Caller, Depends(require_write_key)]) -> Caller:
    return _check_owner(caller)


async def _require_owner_to_read(caller: Annotated[Caller, Depends(require_key)]) -> Caller:
    return _check_owner(caller)


def _check_owner(caller: Caller) -> Caller:
    if caller.user.role != "owner" or caller.expires_at is not None:
        raise ApiError(403, "only the owner may do this, with an API key", "owner_only")
    return caller


OwnerCaller = Annotated[Caller, Depends(_require_owner)]
OwnerReader = Annotated[Caller, Depends(_require_owner_to_read)]


@router.post(
    "/api/users",
    status_code=201,
    responses=describe_response(Person, _PERSON, "The person", status=201),
    openapi_extra=describe_body(NewPerson, {"username": "anna"}),
)
async def add_person(
    services: ServicesDep, caller: OwnerCaller, given: Annotated[Any, json_body(NewPerson)]
) -> Response:
    """Add a person; requires a key of the owner."""
    user = User(
        id=services.clock.name("user"),
        name=given.username,
        role="user",
        created_at=services.clock.now(),
    )
    try:
        await services.store.add_user(user)
    except ConflictError as problem:
        raise conflict(problem.what, "name_taken") from None
    return json_response(_describe(user), 201)


@router.get(
    "/api/users",
    responses=describe_response(
        PersonList, {"items": [_PERSON], "total": 1, "limit": 20, "offset": 0}
    ),
)
async def list_people(
    services: ServicesDep,
    caller: OwnerReader,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
) -> Response:
    """List the people on the server, the owner first; requires a key of the owner."""
    users = await services.store.users()
    page = [_describe(user) for user in users[offset : offset + limit]]
    return json_response(PersonList(items=page, total=len(users), limit=limit, offset=offset))


@router.patch(
    "/api/users/{user_id}",
    responses=describe_response(Person, _PERSON),
    openapi_extra=describe_body(PersonChange, {"disabled": True}),
)
async def change_person(
    services: ServicesDep,
    caller: OwnerCaller,
    user_id: str,
    given: Annotated[Any, json_body(PersonChange)],
) -> Response:
    """Lock a person out, with all keys and open connections, or let them in again."""
    at = services.clock.now() if given.disabled else None
    if not await services.store.disable_user(user_id, at):
        raise not_found("user")
    return json_response(_describe(await _find(services, user_id)))


@router.delete(
    "/api/users/{user_id}", responses=describe_response(PersonDeleted, {"deleted": True})
)
async def delete_person(services: ServicesDep, caller: OwnerCaller, user_id: str) -> Response:
    """Delete a person without sessions; lock out others instead."""
    try:
        is_deleted = await services.store.delete_user(user_id)
    except ConflictError as problem:
        raise conflict(problem.what, "has_sessions") from None
    if not is_deleted:
        raise not_found("user")
    return json_response({"deleted": True})


@router.post(
    "/api/users/{user_id}/api-keys",
    status_code=201,
    responses=describe_response(
        ApiKey, _KEY | {"plaintext": "sk-ot-v1-..."}, "The key, shown once", status=201
    ),
    openapi_extra=describe_body(PersonKey, {"name": "laptop"}),
)
async def add_key(
    services: ServicesDep,
    caller: OwnerCaller,
    user_id: str,
    given: Annotated[Any, json_body(PersonKey)],
) -> Response:
    """Create a key of a person; `plaintext` is returned here and never again."""
    user = await _find(services, user_id)
    person = msgspec.structs.replace(caller, user=user)
    return json_response(
        await keys.create_key(services, person, given.name, given.scope), 201, _NO_STORE
    )


@router.get("/api/users/{user_id}/api-keys", responses=describe_response([ApiKey], [_KEY]))
async def list_keys(services: ServicesDep, caller: OwnerReader, user_id: str) -> Response:
    """List the valid keys of a person, masked."""
    person = msgspec.structs.replace(caller, user=await _find(services, user_id))
    return json_response(await keys.list_keys(services, person))


@router.delete(
    "/api/users/{user_id}/api-keys/{user_key_id}", status_code=204, response_class=Response
)
async def revoke_key(
    services: ServicesDep, caller: OwnerCaller, user_id: str, user_key_id: str
) -> Response:
    """Revoke a key of a person and close the connections that use it."""
    person = msgspec.structs.replace(caller, user=await _find(services, user_id))
    await keys.revoke_key(services, person, user_key_id)
    return Response(status_code=204)


@router.post(
    "/api/tokens",
    status_code=201,
    responses=describe_response(MintedToken, _TOKEN, "The token, shown once", status=201),
    openapi_extra=describe_body(NewToken, {"external_user": "customer-17", "ttl_seconds": 3600}),
)
async def mint(
    services: ServicesDep, caller: WriteCaller, given: Annotated[Any, json_body(NewToken)]
) -> Response:
    """Mint a short-lived token for one session, or for a user of your application."""
    return json_response(await access_tokens.mint_token(services, caller, given), 201, _NO_STORE)


async def _find(services: Services, user_id: str) -> User:
    user = await services.store.user(user_id)
    if user is None:
        raise not_found("user")
    return user


def _describe(user: User) -> Person:
    return Person(
        id=user.id,
        username=user.name,
        role=user.role,
        created_at=user.created_at,
        disabled_at=user.disabled_at,
    )
