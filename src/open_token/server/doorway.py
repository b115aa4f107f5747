"""What strangers may take up at the door of Socket.IO: connections a minute and at once, and short
bodies."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

from open_token.server.config import Limits
from open_token.server.limits import Buckets, address_of, length_of, refuse
from open_token.server.sockets import Sockets

PATH = "/socket.io/"
STRANGERS = 500
"""Connections of one address that have not said who they are, cut off after ten seconds anyway; and
their requests."""
SHORT = 64 << 10
"""What a stranger may send at once."""
Scope = dict[str, Any]


class Doorway:
    """Lets through to Socket.IO what may go there; plain ASGI, before all else. Who is known has
    other limits."""

    def __init__(
        self, app: Any, sockets: Sockets, limits: Limits, now: Callable[[], float] | None = None
    ) -> None:
        self._app = app
        self._sockets = sockets
        self._begun = Buckets(limits.requests_per_minute, *([now] if now else []))
        self._posting: set[str] = set()
        self._strangers_posting: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request or a websocket through, or refuse it."""
        if scope["type"] not in ("http", "websocket") or not f"{scope['path']}/".startswith(PATH):
            await self._app(scope, receive, send)
            return
        (sid,) = parse_qs(scope["query_string"].decode("latin-1")).get("sid", [""])[:1]
        if not sid:
            await self._begin(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "POST":
            await self._post(sid, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _begin(self, scope: Scope, receive: Any, send: Any) -> None:
        """A new connection: so many a minute, and so many at once that nobody knows."""
        address = address_of(scope)
        seconds = self._begun.wait(address)
        if not seconds and self._sockets.strangers(address) < STRANGERS:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1013})  # before it is accepted: 403
        else:
            await refuse(
                send,
                429,
                "too many new connections; wait a little",
                "rate_limited",
                retry_after=seconds or 1,
            )

    async def _post(self, sid: str, scope: Scope, receive: Any, send: Any) -> None:
        """One at a time, as the protocol has it, and a short one as long as nobody knows who it
        is."""
        stranger = "" if self._sockets.is_known(sid) else address_of(scope)
        if sid in self._posting:
            await refuse(send, 429, "one request at a time", "too_many_connections", retry_after=1)
        elif stranger and length_of(scope) > SHORT:
            await refuse(
                send,
                413,
                f"say first who you are; until then a body may have {SHORT} bytes",
                "too_long",
            )
        elif (
            stranger and self._strangers_posting[stranger] >= STRANGERS
        ):  # a body may come a letter at a time
            await refuse(
                send, 429, "too many requests at once", "too_many_connections", retry_after=1
            )
        else:
            with self._counted(sid, stranger):
                await self._app(scope, receive, send)

    @contextlib.contextmanager
    def _counted(self, sid: str, stranger: str) -> Iterator[None]:
        self._posting.add(sid)
        self._strangers_posting[stranger] += 1
        try:
            yield
        finally:
            self._posting.discard(sid)
            self._strangers_posting[stranger] -= 1
            if not self._strangers_posting[stranger]:
                del self._strangers_posting[stranger]
