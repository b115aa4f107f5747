"""A way to a service on this machine that can be cut: nothing passes any more, or every connection
is reset."""

import asyncio
import contextlib
import socket
import struct
from typing import Literal

from open_token.server.cancellation import cancel_and_wait

Cut = Literal["stalled", "lost", "reset"]
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: a closed connection is reset, as by a machine that knows nothing of it."""


class BreakableLink:
    """A proxy on loopback; while it is stalled, what is sent waits on the way and nobody hears of
    an end."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_reset = self._is_lost = False
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "BreakableLink":
        self._server = await asyncio.start_server(self._met, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*map(cancel_and_wait, tuple(self._tasks)))

    def cut(self, how: Cut) -> None:
        """Let nothing pass: connections stay as if they lived, or are reset and new ones are, too.

        Of those that are lost nothing passes ever again, without an error.
        """
        if how != "reset":
            self._flows.clear()
            self._is_lost = how == "lost"
            return
        self._is_reset = True
        for end in tuple(self._ends):
            _reset(end)

    def restore(self) -> None:
        """Let everything pass again, also what was sent meanwhile."""
        self._is_reset = False
        if self._is_lost:
            self._is_lost, self._flows = False, asyncio.Event()
        self._flows.set()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends, flows = [writer], self._flows
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):  # of our own end
                await flows.wait()
                if self._is_reset:
                    _reset(writer)
                    return
                there, far = await asyncio.open_connection("127.0.0.1", self._target)
                ends.append(far)
                self._ends.update(ends)
                await asyncio.gather(_pass(reader, far, flows), _pass(there, writer, flows))
        finally:
            self._tasks.discard(task)
            self._ends.difference_update(ends)
            for end in ends:
                end.close()


async def _pass(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, flows: asyncio.Event
) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            await flows.wait()
            target.write(data)
            await target.drain()
    await flows.wait()
    target.close()


def _reset(end: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    end.transport.abort()
