"""Serve editors: one on standard input and output, others by a socket in the data folder.

Only one process works on a data folder. Another one that an editor starts finds it locked, and
passes its input and output on to the first by the socket; when the first has ended, it takes
over."""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import BinaryIO

import msgspec

from open_token.errors import StoreError, UsageError
from open_token.model.log_events import Json
from open_token.server.acp.agent import AcpAgent
from open_token.server.acp.machine_sessions import MachineSessions
from open_token.server.acp.peer import INTERNAL_ERROR, MAX_LINE_BYTES, Peer
from open_token.server.config import ServerConfig
from open_token.server.core.services import Services
from open_token.server.lifecycle import create_owner, run_services
from open_token.server.store.rows import Caller, KeyRow
from open_token.web.listener import stop_signals

SOCKET_NAME = "acp.sock"
_CONNECT_SECONDS = 10.0
_CONNECT_PAUSE = 0.2


def serve(config: ServerConfig, env: Mapping[str, str], stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Serve one editor until it closes the input, or a signal arrives."""
    # A database is shared with other machines, which do not have the folders of this one.
    config = msgspec.structs.replace(config, database=None, redis=None, role="all")
    asyncio.run(_serve(config, env, stdin, stdout))


async def _serve(
    config: ServerConfig, env: Mapping[str, str], stdin: BinaryIO, stdout: BinaryIO
) -> None:
    with stop_signals() as stopped:
        reader, writer = await _open_pipes(stdin, stdout)
        working = asyncio.ensure_future(_serve_or_relay(config, env, reader, writer))
        stopping = asyncio.ensure_future(stopped.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()
        else:
            working.cancel()
            await asyncio.wait([working])


async def _serve_or_relay(
    config: ServerConfig,
    env: Mapping[str, str],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve until the editor disconnects; once a process that did it has ended, do it here."""
    give_up_at = math.inf
    while True:
        async with contextlib.AsyncExitStack() as stack:
            try:
                services = await stack.enter_async_context(run_services(config, env))
            except StoreError as problem:
                if problem.code != "store.locked" or time.monotonic() > give_up_at:
                    raise
            else:
                await stack.enter_async_context(run_endpoint(services))
                await _serve_peer(services, reader, writer)
                return
        try:
            remote = await asyncio.open_unix_connection(
                config.data / SOCKET_NAME, limit=MAX_LINE_BYTES
            )
        except OSError:
            # The other process is starting or ending, or it does not serve editors.
            give_up_at = min(give_up_at, time.monotonic() + _CONNECT_SECONDS)
            await asyncio.sleep(_CONNECT_PAUSE)
            continue
        give_up_at = math.inf
        if await _relay(reader, writer, *remote):
            return


@contextlib.asynccontextmanager
async def run_endpoint(services: Services) -> AsyncIterator[None]:
    """Serve editors whose process found the data folder locked."""
    if services.config.database is not None:
        # The data folder belongs to one of several nodes.
        yield
        return
    path = services.config.data / SOCKET_NAME
    connections: set[asyncio.Task[None]] = set()

    async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await _serve_peer(services, reader, writer)
        finally:
            connections.discard(task)

    try:
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(serve_connection, path, limit=MAX_LINE_BYTES)
        finally:
            os.umask(mask)
    except OSError:
        # The path may be too long for a socket: then there is one editor at a time.
        yield
        return
    try:
        yield
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        path.unlink(missing_ok=True)


async def _serve_peer(
    services: Services,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    agent = AcpAgent(services, await _find_caller(services), MachineSessions(services.env))
    agent.peer = Peer(reader, writer, agent.handle)
    try:
        await agent.peer.run()
    finally:
        await agent.close()


async def _find_caller(services: Services) -> Caller:
    """Return the owner, who needs no key: whoever can use the data folder is its owner."""
    owner = await create_owner(services)
    if owner is None:
        users = await services.store.users()
        owner = next(user for user in users if user.role == "owner")
    now = services.clock.now()
    key = KeyRow(id="", user_id=owner.id, name="editor", scope="full", masked="", created_at=now)
    return Caller(user=owner, key=key)


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    remote_reader: asyncio.StreamReader,
    remote_writer: asyncio.StreamWriter,
) -> bool:
    """Pass everything on to the process that works on the data folder.

    Returns whether the editor has disconnected; otherwise that process has ended, and the requests
    that it has not answered were refused."""
    unanswered: dict[str | int, None] = {}

    def on_request(message: Json) -> None:
        if "method" in message and isinstance(message.get("id"), str | int):
            unanswered[message["id"]] = None

    def on_answer(message: Json) -> None:
        if "method" not in message:
            unanswered.pop(message.get("id", ""), None)

    sending = asyncio.ensure_future(_pump(reader, remote_writer, on_request))
    receiving = asyncio.ensure_future(_pump(remote_reader, writer, on_answer))
    try:
        await asyncio.wait([sending, receiving], return_when=asyncio.FIRST_COMPLETED)
        has_disconnected = sending.done() and reader.at_eof()
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
        remote_writer.close()
    if not has_disconnected:
        for request_id in unanswered:
            error = {"code": INTERNAL_ERROR, "message": "interrupted; send it again"}
            message = {"jsonrpc": "2.0", "id": request_id, "error": error}
            writer.write(msgspec.json.encode(message) + b"\n")
        await writer.drain()
    return has_disconnected


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, notice: Callable[[Json], None]
) -> None:
    """Pass lines on until one side is closed; each message is noticed on its way."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while line := await reader.readuntil(b"\n"):
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                message = msgspec.json.decode(line)
                if isinstance(message, dict):
                    notice(message)
            writer.write(line)
            await writer.drain()


async def _open_pipes(
    stdin: BinaryIO, stdout: BinaryIO
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    # A writer needs a protocol that knows how full the pipe is; this one has no use for a reader.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    try:
        # Copies, because the loop closes what it is given.
        source = os.fdopen(os.dup(stdin.fileno()), "rb", buffering=0)
        target = os.fdopen(os.dup(stdout.fileno()), "wb", buffering=0)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        transport, _ = await loop.connect_write_pipe(lambda: protocol, target)
    except (ValueError, OSError):
        raise UsageError(
            "standard input and output must be pipes",
            help="this command is started by an editor; see docs/how-to/editors.md",
        ) from None
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
