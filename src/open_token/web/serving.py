"""Run the application on loopback until a signal arrives."""

import asyncio
import contextlib
from collections.abc import Callable, MutableMapping
from typing import Any

import uvicorn
from starlette.applications import Starlette

from open_token.errors import OpenTokenError
from open_token.web.access import Access, AccessControl, App
from open_token.web.listener import Server, bind, stop_signals

SERVER_PATHS = ("/api/", "/socket.io/", "/healthz", "/client.js")
"""What the session server answers where it runs in the same process."""
_HOST = "127.0.0.1"
_HOST_NAMES = (_HOST, "localhost")
_SHUTDOWN_SECONDS = 1
"""Streams of changes never end by themselves: they are cancelled then."""

SessionServer = contextlib.AbstractAsyncContextManager[App]


def serve(
    app: Starlette,
    port: int,
    on_start: Callable[[str], None],
    session_server: SessionServer | None = None,
    on_problem: Callable[[OpenTokenError], None] = lambda problem: None,
) -> None:
    """Serve the application; `on_start` gets the link that lets a browser in, once.

    The session server, if there is one, runs in the same process and answers its own paths; if it
    cannot start, `on_problem` gets the reason.
    """

    async def run_until_stopped() -> None:
        async with contextlib.AsyncExitStack() as stack:
            listener = stack.enter_context(bind(_HOST, port))
            combined: App = app
            if session_server is not None:
                try:
                    combined = combine(app, await stack.enter_async_context(session_server))
                    app.state.has_server = True
                except OpenTokenError as problem:
                    # Another process may be using its data: everything else works without it.
                    on_problem(problem)
            stopped = stack.enter_context(stop_signals())
            actual_port = listener.getsockname()[1]
            access = Access(_HOST_NAMES, actual_port)
            config = _configure(AccessControl(combined, access), has_sockets=app.state.has_server)
            server = Server(config)
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await server.wait_until_ready(task)
            on_start(f"http://{_HOST}:{actual_port}{access.create_link()}")
            await stopped.wait()
            server.should_exit = True
            await task

    asyncio.run(run_until_stopped())


def combine(app: App, session_server: App) -> App:
    """Return an application in which the session server answers its own paths."""

    async def combined(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        is_request = scope["type"] in ("http", "websocket")
        if is_request and scope["path"].startswith(SERVER_PATHS):
            await session_server(scope, receive, send)
        else:
            await app(scope, receive, send)

    return combined


def _configure(app: AccessControl, *, has_sockets: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="websockets-sansio" if has_sockets else "none",
        lifespan="on",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
