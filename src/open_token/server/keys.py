"""API keys as their users see and end them."""

from open_token.model.session_types import ApiKey
from open_token.server.refusals import missing
from open_token.server.services import Services
from open_token.server.store.rows import Caller, KeyRow, Scope


def shown(row: KeyRow, plaintext: str | None = None) -> ApiKey:
    """A key as it is told; its plain text only when it was just made."""
    return ApiKey(
        id=row.id,
        name=row.name,
        masked=row.masked,
        plaintext=plaintext,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        scope=row.scope,
    )


async def make(services: Services, caller: Caller, name: str, scope: Scope) -> ApiKey:
    """A new key; this is the one time that its plain text is told."""
    row, plaintext = await services.store.add_key(caller.user.id, name, scope, services.clock.now())
    return shown(row, plaintext)


async def listed(services: Services, caller: Caller) -> list[ApiKey]:
    """The keys that can be used, oldest first."""
    return [shown(row) for row in await services.store.keys(caller.user.id)]


async def rename(services: Services, caller: Caller, key_id: str, name: str) -> ApiKey:
    """Give a key another name."""
    row = await services.store.rename_key(caller.user.id, key_id, name)
    if row is None:
        raise missing("key")
    return shown(row)


async def revoke(services: Services, caller: Caller, key_id: str) -> None:
    """End a key at once."""
    if not await services.store.revoke_key(caller.user.id, key_id, services.clock.now()):
        raise missing("key")
