"""The server as its owner has it, for requests whose sender was identified in another way."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from open_token.server.core.services import Services
from open_token.server.lifecycle import create_owner
from open_token.server.store.rows import User

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


@contextlib.asynccontextmanager
async def lend_key(services: Services, server: App, name: str) -> AsyncIterator[App]:
    """Yield the server as its owner has it; the key for that ends with the context."""
    owner = await _find_owner(services)
    if services.config.database is None:
        # No other process uses the data: keys of this name are of processes that were killed.
        for old in await services.store.keys(owner.id):
            if old.name == name:
                await services.store.revoke_key(owner.id, old.id, services.clock.now())
    row, key = await services.store.add_key(owner.id, name, "full", services.clock.now())
    try:
        yield _with_key(server, key)
    finally:
        await services.store.revoke_key(owner.id, row.id, services.clock.now())


async def _find_owner(services: Services) -> User:
    created = await create_owner(services)
    if created is not None:
        return created
    users = await services.store.users()
    return next(user for user in users if user.role == "owner")


def _with_key(app: App, key: str) -> App:
    header = (b"authorization", f"Bearer {key}".encode())

    async def app_with_key(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            others = [item for item in scope["headers"] if item[0] != b"authorization"]
            scope = {**scope, "headers": [*others, header]}
        await app(scope, receive, send)

    return app_with_key
