"""The session server inside another application: the same routes and sockets, no port of its own."""

import contextlib
from collections.abc import AsyncIterator, Mapping, MutableMapping
from typing import Any

from open_token.server.acp.serving import run_endpoint
from open_token.server.config import ServerConfig
from open_token.server.core.services import Services
from open_token.server.lifecycle import create_owner, run_services
from open_token.server.listener import App, build_asgi_app
from open_token.server.store.rows import User
from open_token.server.ws.handlers import SocketHandlers

_KEY_NAME = "web application"


@contextlib.asynccontextmanager
async def run_mounted(config: ServerConfig, env: Mapping[str, str]) -> AsyncIterator[App]:
    """Run the services, and yield an application in which every request is one of the owner.

    Whoever mounts it decides who gets that far. The key that it uses ends with it.
    """
    async with run_services(config, env) as services, run_endpoint(services):
        owner = await _find_owner(services)
        await _revoke_keys(services, owner)
        now = services.clock.now()
        row, key = await services.store.add_key(owner.id, _KEY_NAME, "full", now)
        live = SocketHandlers(services)
        try:
            yield _with_key(build_asgi_app(services, live), key)
        finally:
            await live.close()
            await services.feed.close()
            await services.connections.close()
            await services.store.revoke_key(owner.id, row.id, services.clock.now())


async def _find_owner(services: Services) -> User:
    created = await create_owner(services)
    if created is not None:
        return created
    users = await services.store.users()
    return next(user for user in users if user.role == "owner")


async def _revoke_keys(services: Services, owner: User) -> None:
    """Revoke the keys of processes that were killed."""
    for row in await services.store.keys(owner.id):
        if row.name == _KEY_NAME:
            await services.store.revoke_key(owner.id, row.id, services.clock.now())


def _with_key(app: App, key: str) -> App:
    header = (b"authorization", f"Bearer {key}".encode())

    async def app_with_key(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            others = [item for item in scope["headers"] if item[0] != b"authorization"]
            scope = {**scope, "headers": [*others, header]}
        await app(scope, receive, send)

    return app_with_key
