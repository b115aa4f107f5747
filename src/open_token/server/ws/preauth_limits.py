"""Limits for Socket.IO clients that have not authenticated yet."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

from open_token.server.config import Limits
from open_token.server.limits import TokenBuckets, client_key, content_length, send_error
from open_token.server.ws.sockets import SocketServer

SOCKETIO_PATH = "/socket.io/"
MAX_UNAUTHENTICATED = 500
"""Unauthenticated connections of one address (each is closed after ten seconds), and their
concurrent requests."""
MAX_UNAUTHENTICATED_BYTES = 64 << 10
"""The body or message of an unauthenticated client."""
_TRY_AGAIN_LATER = 1013
Scope = dict[str, Any]


class PreauthLimits:
    """ASGI middleware in front of Socket.IO; authenticated clients have other limits."""

    def __init__(
        self,
        app: Any,
        sockets: SocketServer,
        limits: Limits,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._app = app
        self._sockets = sockets
        clock = [now] if now else []
        self._new_connections = TokenBuckets(limits.requests_per_minute, *clock)
        self._posting: set[str] = set()
        self._unauthenticated_posts: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request or a WebSocket on, or reject it."""
        if not _is_for_socketio(scope):
            await self._app(scope, receive, send)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        sid = query.get("sid", [""])[0]
        if not sid:
            await self._connect(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "POST":
            await self._post(sid, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _connect(self, scope: Scope, receive: Any, send: Any) -> None:
        address = client_key(scope)
        seconds = self._new_connections.take(address)
        if not seconds and self._sockets.count_unauthenticated(address) < MAX_UNAUTHENTICATED:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            # Before the handshake is accepted this becomes a 403.
            await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER})
        else:
            await send_error(
                send,
                429,
                "too many new connections; retry later",
                "rate_limited",
                retry_after=seconds or 1,
            )

    async def _post(self, sid: str, scope: Scope, receive: Any, send: Any) -> None:
        """Pass one POST at a time, as Engine.IO requires, and only short ones before login."""
        is_authenticated = self._sockets.is_authenticated(sid)
        address = "" if is_authenticated else client_key(scope)
        if sid in self._posting:
            await send_error(
                send, 429, "one request at a time", "too_many_connections", retry_after=1
            )
        elif address and content_length(scope) > MAX_UNAUTHENTICATED_BYTES:
            await send_error(
                send,
                413,
                f"body exceeds {MAX_UNAUTHENTICATED_BYTES} bytes, the limit before login",
                "too_long",
            )
        elif address and self._unauthenticated_posts[address] >= MAX_UNAUTHENTICATED:
            # Bodies may arrive byte by byte, so many can be open at once.
            await send_error(
                send, 429, "too many concurrent requests", "too_many_connections", retry_after=1
            )
        else:
            with self._count_post(sid, address):
                await self._app(scope, receive, send)

    @contextlib.contextmanager
    def _count_post(self, sid: str, address: str) -> Iterator[None]:
        self._posting.add(sid)
        self._unauthenticated_posts[address] += 1
        try:
            yield
        finally:
            self._posting.discard(sid)
            self._unauthenticated_posts[address] -= 1
            if not self._unauthenticated_posts[address]:
                del self._unauthenticated_posts[address]


def _is_for_socketio(scope: Scope) -> bool:
    if scope["type"] not in ("http", "websocket"):
        return False
    return f"{scope['path']}/".startswith(SOCKETIO_PATH)
