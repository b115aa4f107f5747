"""Clients of several nodes: they go to another when one is silent or gone, and note all that they
receive."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, cast

import httpx2
import socketio

from helpers.server.live_events import apply_event
from helpers.server.reference_client import ReferenceClient
from helpers.server.socket_server import Client
from open_token.model.log_events import Json

SILENCE = 2.0
"""Seconds without news after which a client tries another node: it may have been paused or cut
off."""
ANSWER = 5.0


class Address(Protocol):
    """A node that may have another address after it was started again."""

    address: str


@dataclass
class Connection:
    """What came over one connection: the items behind the one that the client had."""

    after: int
    known: int
    """What was acknowledged when it began."""
    items: list[Json] = field(default_factory=list)


class Watcher:
    """One who watches a session for as long as it takes, over one connection after the other."""

    def __init__(
        self, nodes: Sequence[Address], token: str, session_id: str, way: str, random: Random
    ) -> None:
        self._nodes, self._token, self._random = nodes, token, random
        self.session_id, self.way = session_id, way
        self.mirror = ReferenceClient()
        self.numbers: list[int] = []
        self.connections: list[Connection] = []
        self.known: Callable[[], int] = lambda: 0
        self._news = asyncio.Event()

    @property
    def seen(self) -> int:
        """The last event that came."""
        return self.mirror.seen

    async def watch(self) -> None:
        """Watch until it is cancelled."""
        while True:
            here = Connection(self.seen, self.known())
            self.connections.append(here)
            node = self._random.choice(self._nodes)
            with contextlib.suppress(
                httpx2.HTTPError, socketio.exceptions.SocketIOError, TimeoutError, OSError
            ):
                await (self._stream(node, here) if self.way == "sse" else self._socket(node, here))
            await asyncio.sleep(0.05)

    def _take(self, here: Connection, payload: Json) -> None:
        if here is self.connections[-1]:
            here.items += payload["events"]
            apply_event(self.mirror, self.numbers, "turn:events", payload)
            self._news.set()

    async def _socket(self, node: Address, here: Connection) -> None:
        client = Client(node.address, self._token)
        client.io.on("turn:events", lambda payload: self._take(here, payload))
        client.io.on("disconnect", lambda *_: self._news.set())
        try:
            async with asyncio.timeout(ANSWER):
                await client.io.connect(
                    node.address, auth={"token": self._token}, transports=["websocket"]
                )
            asked = {
                "session_id": self.session_id,
                "event_format": "raw",
                "after_sequence": self.seen,
                "resume": True,
            }
            await client.io.call("session:subscribe", asked, timeout=ANSWER)
            while client.io.connected and "system:error" not in client.names():
                self._news.clear()
                async with asyncio.timeout(SILENCE):
                    await self._news.wait()
        finally:
            await _away(client)

    async def _stream(self, node: Address, here: Connection) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Last-Event-ID": str(self.seen)}
        url = f"{node.address}/api/sessions/{self.session_id}/events"
        async with (
            httpx2.AsyncClient(timeout=httpx2.Timeout(ANSWER, read=SILENCE)) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    self._take(here, {"events": [json.loads(line[6:])]})


async def send_message(
    nodes: Sequence[Any], token: str, message: Json, random: Random
) -> tuple[Any, Json]:
    """Send a message over Socket.IO or HTTP, to one node after the other until one has taken it;
    gives that node and its answer."""
    while True:
        node = random.choice(nodes)
        if random.random() < 0.5:
            output = await _post_message(node, token, message)
            if output is not None:
                return node, output
            await asyncio.sleep(0.1)
            continue
        client = Client(node.address, token)
        try:
            async with asyncio.timeout(ANSWER):
                await client.io.connect(
                    node.address, auth={"token": token}, transports=["websocket"]
                )
            result = await client.io.call("chat:send", message, timeout=ANSWER)
            if result["status"] == "ok":
                return node, result
        except (socketio.exceptions.SocketIOError, TimeoutError, OSError):
            pass
        finally:
            await _away(client)
        await asyncio.sleep(0.1)


async def _post_message(node: Address, token: str, message: Json) -> Json | None:
    """Send a message over HTTP; None when the node did not answer."""
    url = f"{node.address}/api/sessions/{message['session_id']}/messages?wait=false"
    headers = {"Authorization": f"Bearer {token}"}
    with contextlib.suppress(httpx2.HTTPError):
        async with httpx2.AsyncClient(timeout=ANSWER) as client:
            response = await client.post(url, json=message, headers=headers)
        if response.status_code == 202:
            return cast(Json, response.json())
    return None


async def _away(client: Client) -> None:
    """Leave without a word: the other side may be one that answers nobody."""
    wire = getattr(getattr(client.io.eio, "ws", None), "_response", None)
    if wire is not None and wire.connection is not None and wire.connection.transport is not None:
        wire.connection.transport.abort()
    with contextlib.suppress(Exception):
        async with asyncio.timeout(ANSWER):
            await client.io.disconnect()
    http = getattr(client.io.eio, "http", None)
    if http is not None and not http.closed:
        await http.close()
