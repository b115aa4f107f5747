"""What strangers may take up at the door of Socket.IO: connections a minute and at once, and short bodies."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from open_token.server.config import Limits
from open_token.server.limits import Buckets, address_of, length_of, refuse
from open_token.server.sockets import Sockets

PATH = "/socket.io/"
STRANGERS = 500
"""Connections of one address that have not said who they are; after ten seconds they are cut off anyway."""
SHORT = 64 << 10
"""What a stranger may send at once."""
Scope = dict[str, Any]


class Doorway:
    """Lets through to Socket.IO what may go there; plain ASGI, before all else. Who is known has other limits."""

    def __init__(self, app: Any, sockets: Sockets, limits: Limits, now: Callable[[], float] | None = None) -> None:
        self._app = app
        self._sockets = sockets
        self._begun = Buckets(limits.requests_per_minute, *([now] if now else []))
        self._posting: set[str] = set()

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
            await refuse(send, 429, "too many new connections; wait a little", "rate_limited", retry_after=seconds or 1)

    async def _post(self, sid: str, scope: Scope, receive: Any, send: Any) -> None:
        """One at a time, as the protocol has it, and a short one as long as nobody knows who it is."""
        if sid in self._posting:
            await refuse(send, 429, "one request at a time", "too_many_connections", retry_after=1)
        elif length_of(scope) > SHORT and not self._sockets.is_known(sid):
            await refuse(send, 413, f"say first who you are; until then a body may have {SHORT} bytes", "too_long")
        else:
            self._posting.add(sid)
            try:
                await self._app(scope, receive, send)
            finally:
                self._posting.discard(sid)
