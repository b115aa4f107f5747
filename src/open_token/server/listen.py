"""Puts a server on a port and takes it off again."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator, Mapping

import uvicorn

from open_token.errors import OpenTokenError
from open_token.server.config import ServerConfig
from open_token.server.http.app import make_app
from open_token.server.start import first_key, running


def serve(config: ServerConfig, env: Mapping[str, str], told: Callable[[str, str | None], None]) -> None:
    """Run a server until a signal stops it; tells the address, and on the first start the owner's key."""
    asyncio.run(_serve(config, env, told))


async def _serve(config: ServerConfig, env: Mapping[str, str], told: Callable[[str, str | None], None]) -> None:
    with _bound(config.host, config.port) as door:
        async with running(config, env) as services:
            key = await first_key(services)
            options = uvicorn.Config(make_app(services), log_config=None, access_log=False, lifespan="off")
            server = uvicorn.Server(options)
            server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
            loop = asyncio.get_running_loop()
            task = asyncio.create_task(server._serve(sockets=[door]))
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, setattr, server, "should_exit", True)
            told("http://{}:{}".format(*door.getsockname()[:2]), key)
            await task


@contextlib.contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    with socket.socket() as door:
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((host, port))
            door.listen(1024)
        except OSError as problem:
            what = "the port is in use" if problem.errno == errno.EADDRINUSE else "the server cannot listen there"
            raise OpenTokenError(
                what, where=f"{host}:{port}", help="choose another port", code="server.address"
            ) from None
        yield door
