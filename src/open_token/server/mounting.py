"""The session server inside another application: the same routes and sockets, no port of its own."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from open_token.server.acp.serving import run_endpoint
from open_token.server.config import ServerConfig
from open_token.server.lending import App, lend_key
from open_token.server.lifecycle import run_services
from open_token.server.listener import build_asgi_app
from open_token.server.ws.handlers import SocketHandlers

_KEY_NAME = "web application"


@contextlib.asynccontextmanager
async def run_mounted(config: ServerConfig, env: Mapping[str, str]) -> AsyncIterator[App]:
    """Run the services, and yield an application in which every request is one of the owner.

    Whoever mounts it decides who gets that far. The key that it uses ends with it.
    """
    async with run_services(config, env) as services, run_endpoint(services):
        live = SocketHandlers(services)
        async with lend_key(services, build_asgi_app(services, live), _KEY_NAME) as app:
            try:
                yield app
            finally:
                await live.close()
                await services.feed.close()
                await services.connections.close()
