"""Listen on an address of this machine, and run an ASGI application there."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Iterator

import uvicorn

from open_token.errors import OpenTokenError

_BACKLOG = 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._is_ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and wake whoever waits for it."""
        await super().startup(sockets)
        self._is_ready.set()

    async def wait_until_ready(self, task: asyncio.Task[None]) -> None:
        """Wait until the server listens; raises the exception of its task if it cannot."""
        ready = asyncio.ensure_future(self._is_ready.wait())
        await asyncio.wait((ready, task), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            await task

    def stop_accepting(self) -> None:
        """Close the listening sockets."""
        for server in getattr(self, "servers", ()):
            server.close()


@contextlib.contextmanager
def bind(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a listening socket; raises OpenTokenError when that is impossible."""
    if not 0 <= port <= 65535:
        raise _address_error(host, port, None)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as problem:
        raise _address_error(host, port, problem) from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as problem:
            raise _address_error(host, port, problem) from None
        yield listener


def _address_error(host: str, port: int, problem: Exception | None) -> OpenTokenError:
    number = problem.errno if isinstance(problem, OSError) else None
    if number == errno.EADDRINUSE:
        what = "port already in use"
        advice = "choose another one with --port, or stop the process that listens there"
    elif number in (errno.EACCES, errno.EPERM):
        what = "permission denied for this port"
        advice = "choose a port above 1023 with --port"
    else:
        what = "cannot listen on this address"
        advice = "--host must be an address of this machine, --port 0 to 65535"
    return OpenTokenError(what, where=f"{host}:{port}", help=advice, code="server.address")


def format_address(listener: socket.socket) -> str:
    """Return the address of a listening socket as a URL."""
    host, port = listener.getsockname()[:2]
    if ":" in host:
        return f"http://[{host}]:{port}"
    return f"http://{host}:{port}"


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that the first stop signal sets; the second one kills the process."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}

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
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
