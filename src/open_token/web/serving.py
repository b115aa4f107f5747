"""Run the application on loopback until a signal arrives."""

import asyncio
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from open_token.web.access import Access, AccessControl
from open_token.web.listener import Server, bind, stop_signals

_HOST = "127.0.0.1"
_HOST_NAMES = (_HOST, "localhost")
_SHUTDOWN_SECONDS = 1
"""Streams of changes never end by themselves: they are cancelled then."""


def serve(app: Starlette, port: int, on_start: Callable[[str], None]) -> None:
    """Serve the application; `on_start` gets the link that lets a browser in, once."""

    async def run_until_stopped() -> None:
        with bind(_HOST, port) as listener, stop_signals() as stopped:
            actual_port = listener.getsockname()[1]
            access = Access(_HOST_NAMES, actual_port)
            server = Server(_configure(AccessControl(app, access)))
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await server.wait_until_ready(task)
            on_start(f"http://{_HOST}:{actual_port}{access.create_link()}")
            await stopped.wait()
            server.should_exit = True
            await task

    asyncio.run(run_until_stopped())


def _configure(app: AccessControl) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
