"""The listening server: Socket.IO, REST and event streams on one port."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import socketio
import uvicorn
from starlette.applications import Starlette

from open_token.server.acp.serving import run_endpoint
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.services import Services
from open_token.server.embedding import EmbeddedApplication, embed_application, is_loopback
from open_token.server.http.app import build_app
from open_token.server.http.timeouts import TimeoutProtocol
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.ws.handlers import SocketHandlers
from open_token.server.ws.preauth_limits import MAX_UNAUTHENTICATED_BYTES, PreauthLimits
from open_token.server.ws.sse import ABORT_KEY
from open_token.web.listener import Server, bind, format_address, stop_signals

new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with contextlib.suppress(ImportError):
    import uvloop

    new_event_loop = uvloop.new_event_loop

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
_KEY_ROUTES = ("/api/user/api-keys", "/api/users", "/api/auth/")
_SHUTDOWN_SECONDS = 5
"""The time that open requests have when the server stops."""


@dataclass(frozen=True)
class RunningServer:
    """A server that accepts connections."""

    address: str
    first_key: str | None
    """On the first start the key of the owner; it is not shown again."""
    services: Services
    live: SocketHandlers
    embedded: EmbeddedApplication | None
    """The web application, if it is there."""


def serve(
    config: ServerConfig,
    env: Mapping[str, str],
    on_start: Callable[[str, str | None], None],
    on_stop: Callable[[], None] = lambda: None,
    application: Starlette | None = None,
    on_link: Callable[[str], None] = lambda link: None,
) -> None:
    """Run a server until a signal stops it.

    `on_start` is called with the address and, on the first start, the key of the owner. If
    `application` is given and only this machine can connect, browsers get it on the same address;
    `on_link` is called with each link that lets one in."""

    async def run_until_stopped() -> None:
        with stop_signals() as stopped:
            running = run_server(config, env, application=application, on_link=on_link)
            async with running as server:
                on_start(server.address, server.first_key)
                if server.embedded is not None:
                    server.embedded.show_link()
                await stopped.wait()
                on_stop()

    _raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run_until_stopped())


def _raise_file_limit() -> None:
    """Raise the limit of open files, and so of connections, to the maximum (often from 1,024)."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


@contextlib.asynccontextmanager
async def run_server(
    config: ServerConfig,
    env: Mapping[str, str],
    clock: Clock | None = None,
    *,
    application: Starlette | None = None,
    on_link: Callable[[str], None] = lambda link: None,
) -> AsyncIterator[RunningServer]:
    """Run a listening server; on exit it stops to accept, notifies clients and finishes work."""
    # The port is bound first: the key of the owner is shown once, so the start must not fail later.
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(bind(config.host, config.port))
        services = await stack.enter_async_context(run_services(config, env, clock))
        await stack.enter_async_context(run_endpoint(services))
        key = await create_first_key(services)
        live = SocketHandlers(services)
        app = build_asgi_app(services, live)
        embedded = None
        if application is not None and is_loopback(config.host):
            address = format_address(listener)
            embedded = await stack.enter_async_context(
                embed_application(application, services, app, address, on_link)
            )
            app = embedded
        server = Server(_uvicorn_config(config, app))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await server.wait_until_ready(task)
            yield RunningServer(format_address(listener), key, services, live, embedded)
        finally:
            server.stop_accepting()
            if embedded is not None:
                embedded.stop_streams()
            await live.close()
            await services.feed.close()
            await services.connections.close()
            server.should_exit = True
            await task


def build_asgi_app(services: Services, live: SocketHandlers) -> App:
    """Build the ASGI application: Socket.IO with REST behind it."""
    rest = build_app(services)

    async def rest_app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope[ABORT_KEY] = functools.partial(_abort_connection, send)
        await rest(scope, receive, send)
        if _may_change_keys(scope):
            services.connections.recheck()

    combined = socketio.ASGIApp(live.server, other_asgi_app=rest_app)
    app: App = PreauthLimits(combined, live.server, services.config.limits)
    return app


def _may_change_keys(scope: MutableMapping[str, Any]) -> bool:
    if scope["type"] != "http" or scope["method"] == "GET":
        return False
    return bool(scope["path"].startswith(_KEY_ROUTES))


def _abort_connection(send: Any) -> None:
    """Close a connection even with unsent bytes; uvicorn's `send` is a method of its protocol."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()


def _uvicorn_config(config: ServerConfig, app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=TimeoutProtocol,
        ws="websockets-sansio",
        # Raised for each connection once it has authenticated.
        ws_max_size=min(MAX_UNAUTHENTICATED_BYTES, config.limits.event_bytes * 4),
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(config.proxies),
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
