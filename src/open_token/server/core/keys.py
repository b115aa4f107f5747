"""API keys of a user."""

from open_token.model.session_types import ApiKey
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, conflict, not_found
from open_token.server.store.rows import Caller, KeyRow, Scope


def to_api_key(row: KeyRow, plaintext: str | None = None) -> ApiKey:
    """Convert a row; the plain text is only known right after the key was created."""
    return ApiKey(
        id=row.id,
        name=row.name,
        masked=row.masked,
        plaintext=plaintext,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        scope=row.scope,
    )


async def create_key(services: Services, caller: Caller, name: str, scope: Scope) -> ApiKey:
    """Create a key; its plain text is returned here and never again."""
    if caller.expires_at is not None:
        raise ApiError(403, "a token cannot create keys; use an API key", "token_scope")
    await check_key_limit(services, caller.user.id)
    now = services.clock.now()
    row, plaintext = await services.store.add_key(caller.user.id, name, scope, now)
    return to_api_key(row, plaintext)


async def check_key_limit(services: Services, user_id: str) -> None:
    """Raise a 409 when a user has as many keys as allowed."""
    limit = services.config.limits.keys_per_user
    if len(await services.store.keys(user_id)) >= limit:
        raise conflict(f"limit of {limit} keys reached; revoke one first", "too_many_keys")


async def list_keys(services: Services, caller: Caller) -> list[ApiKey]:
    """Return the valid keys, oldest first."""
    rows = await services.store.keys(caller.user.id)
    return [to_api_key(row) for row in rows]


async def get_key(services: Services, caller: Caller, key_id: str) -> ApiKey:
    """Return a valid key."""
    for key in await list_keys(services, caller):
        if key.id == key_id:
            return key
    raise not_found("key")


async def rename_key(services: Services, caller: Caller, key_id: str, name: str) -> ApiKey:
    """Rename a key."""
    row = await services.store.rename_key(caller.user.id, key_id, name)
    if row is None:
        raise not_found("key")
    return to_api_key(row)


async def revoke_key(services: Services, caller: Caller, key_id: str) -> None:
    """Revoke a key with immediate effect."""
    if not await services.store.revoke_key(caller.user.id, key_id, services.clock.now()):
        raise not_found("key")
