"""Puts a server on a port and takes it off again: Socket.IO, REST and event streams in one
process."""

import asyncio
import contextlib
import errno
import functools
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import socketio
import uvicorn

from open_token.errors import OpenTokenError
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.doorway import SHORT, Doorway
from open_token.server.http.app import make_app
from open_token.server.live import Live
from open_token.server.patience import Patient
from open_token.server.services import Services
from open_token.server.sse import CUT
from open_token.server.start import first_key, running

new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with contextlib.suppress(ImportError):
    import uvloop

    new_event_loop = uvloop.new_event_loop

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_KEYS = ("/api/user/api-keys", "/api/auth/")
_LET_FINISH = 5
"""Seconds that requests under way have when the server stops."""


@dataclass(frozen=True)
class Listening:
    """A server that can be reached."""

    address: str
    first_key: str | None
    """On the very first start: the key of the owner, told here and never again."""
    services: Services
    live: Live


def serve(
    config: ServerConfig,
    env: Mapping[str, str],
    told: Callable[[str, str | None], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run a server until a signal stops it; tells the address, on the first start the owner's key,
    and the signal."""

    async def until_stopped() -> None:
        with _signals() as stopped:
            async with listening(config, env) as server:
                told(server.address, server.first_key)
                await stopped.wait()
                stopping()

    _open_many()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(until_stopped())


def _open_many() -> None:
    """Let this process have as many connections open as it may; shells give it 1,024 and let it ask
    for more."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.asynccontextmanager
async def listening(
    config: ServerConfig, env: Mapping[str, str], clock: Clock | None = None
) -> AsyncIterator[Listening]:
    """A server while it listens; on the way out it accepts nobody, tells who is there, and brings
    work to an end."""
    # The port first: the owner's key is told once, and not before there is somebody to use it with.
    with _bound(config.host, config.port) as door:
        async with running(config, env, clock) as services:
            key = await first_key(services)
            live = Live(services)
            server = _Server(_setup(config, whole_app(services, live)))
            task = asyncio.create_task(server.serve(sockets=[door]))
            try:
                await server.ready(task)
                yield Listening(_address(door), key, services, live)
            finally:
                server.stop_accepting()
                await live.close()
                await services.feed.close()
                await services.connections.close()
                server.should_exit = True
                await task


def whole_app(services: Services, live: Live) -> App:
    """Everything that a server answers."""
    rest = make_app(services)

    async def with_keys_watched(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope[CUT] = functools.partial(_cut, send)
        await rest(scope, receive, send)
        if scope["type"] == "http" and scope["method"] != "GET" and scope["path"].startswith(_KEYS):
            services.connections.recheck()

    both = socketio.ASGIApp(live.server, other_asgi_app=with_keys_watched)
    app: App = Doorway(both, live.server, services.config.limits)
    return app


def _cut(send: Any) -> None:
    """End a connection though the other side takes nothing; uvicorn's `send` belongs to what has
    the transport."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()


def _setup(config: ServerConfig, app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Patient,
        ws="websockets-sansio",
        ws_max_size=min(SHORT, config.limits.event_bytes * 4),  # more for those who are known
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(config.proxies),
        timeout_graceful_shutdown=_LET_FINISH,
    )


class _Server(uvicorn.Server):
    """A server whose signals are somebody else's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._is_up.set()

    async def ready(self, task: asyncio.Task[None]) -> None:
        """Wait until it listens; when it cannot, its problem is raised."""
        up = asyncio.ensure_future(self._is_up.wait())
        await asyncio.wait((up, task), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if task.done():
            await task

    def stop_accepting(self) -> None:
        for server in getattr(self, "servers", ()):
            server.close()


@contextlib.contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at an address that nobody else has."""
    if not 0 <= port <= 65535:
        raise _no_door(host, port, None)
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = places[0]
        door = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as problem:
        raise _no_door(host, port, problem) from None
    with door:
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(place)
            door.listen(1024)
        except OSError as problem:
            raise _no_door(host, port, problem) from None
        yield door


def _no_door(host: str, port: int, problem: Exception | None) -> OpenTokenError:
    number = problem.errno if isinstance(problem, OSError) else None
    if number == errno.EADDRINUSE:
        what, do = "the port is in use", "choose another with --port, or stop what listens there"
    elif number in (errno.EACCES, errno.EPERM):
        what, do = "this port needs more rights than you have", "choose one above 1023 with --port"
    else:
        what, do = (
            "the server cannot listen there",
            "--host takes an address of this machine, --port 0 to 65535",
        )
    return OpenTokenError(what, where=f"{host}:{port}", help=do, code="server.address")


def _address(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event that is set by the first signal to stop; the second one ends the process at once."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def stop() -> None:
        stopped.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield stopped
    finally:
        for number, known in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, known)
