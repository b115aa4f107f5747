"""Request limits: body size, requests per minute, concurrent requests; plain ASGI middleware."""

import functools
import hashlib
import ipaddress
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from open_token.model.session_types import encode
from open_token.server.config import Limits

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Any]
Receive = Callable[[], Any]
_MAX_KNOWN = 20_000
_UPLOAD_PATHS = re.compile(
    r".*/api/sessions/(?:import|preview-import|[^/]+/upload(?:/.*)?)", re.DOTALL
)
"""The routes that accept uploads; on all others a multipart body has the limit of a plain one."""
_BODY_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class _Rejection:
    status: int
    detail: str
    code: str
    retry_after: float | None = None


_TOO_MANY_BYTES = _Rejection(
    429, "too many large request bodies at once; retry later", "too_many_bytes", _BODY_RETRY_SECONDS
)


def _too_long(max_bytes: int) -> _Rejection:
    return _Rejection(413, f"request body exceeds {max_bytes} bytes", "too_long")


class TokenBuckets:
    """Token buckets by name: a steady rate per minute, with bursts of up to a minute's worth."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_minute / 60
        self._capacity = float(per_minute)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take a token; returns 0, or the seconds until there will be one."""
        now = self._now()
        level, updated_at = self._buckets.get(name, (self._capacity, now))
        level = min(self._capacity, level + (now - updated_at) * self._per_second)
        wait = 0.0
        if level >= 1:
            level -= 1
        else:
            wait = (1 - level) / self._per_second
        self._buckets[name] = (level, now)
        self._buckets.move_to_end(name)
        while len(self._buckets) > _MAX_KNOWN:
            self._buckets.popitem(last=False)
        return wait


class RequestLimits:
    """Rejects requests above the limits with 413 or 429.

    All keys of a user share one limit. Requests with unknown keys share the limits of their
    address."""

    def __init__(self, app: Any, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._limits = limits
        self._buckets = TokenBuckets(limits.requests_per_minute, now)
        self._known_keys: OrderedDict[str, str] = OrderedDict()
        """The user of each key that was accepted."""
        self._concurrent: Counter[str] = Counter()
        self._body_bytes: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Of repeated headers the first one counts, as in the application.
        headers = dict(reversed(scope["headers"]))
        key = _hash_key(headers.get(b"authorization"))
        client = self._known_keys.get(key) or client_key(scope)
        max_bytes = self._max_body_bytes(scope, headers)
        budget = _ByteBudget(self._body_bytes, client, max(self._limits.bodies_bytes, max_bytes))
        rejection = self._check(scope, client, max_bytes, budget)
        if rejection is not None:
            await _send_rejection(send, rejection)
        else:
            body = _CountedBody(receive, send, max_bytes, budget)
            await self._handle(scope, body, client, key)

    def _check(
        self, scope: Scope, client: str, max_bytes: int, budget: "_ByteBudget"
    ) -> _Rejection | None:
        seconds = self._buckets.take(client)
        if seconds:
            return _Rejection(
                429, "rate limit exceeded; retry later", "rate_limited", retry_after=seconds
            )
        at_limit = self._concurrent[client] >= self._limits.connections_per_user
        if at_limit and not _is_event_stream(scope):
            return _Rejection(
                429, "too many concurrent requests", "too_many_connections", retry_after=1
            )
        if content_length(scope) > max_bytes:
            return _too_long(max_bytes)
        if not budget.reserve(content_length(scope)):
            return _TOO_MANY_BYTES
        return None

    def _max_body_bytes(self, scope: Scope, headers: dict[bytes, bytes]) -> int:
        is_form = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
        if is_form and _UPLOAD_PATHS.fullmatch(scope.get("path", "")):
            return self._limits.upload_bytes
        return self._limits.body_bytes

    async def _handle(self, scope: Scope, body: "_CountedBody", client: str, key: str) -> None:
        weight = 0 if _is_event_stream(scope) else 1
        self._concurrent[client] += weight
        try:
            await self._app(scope, body.receive, body.send)
        finally:
            self._concurrent[client] -= weight
            if not self._concurrent[client]:
                del self._concurrent[client]
            body.budget.release()
        if key:
            self._learn_key(key, body.status, scope.get("open_token.user"))

    def _learn_key(self, key: str, status: int, user_id: str | None) -> None:
        """Remember the users of accepted keys, and forget rejected keys."""
        if status == 401:
            self._known_keys.pop(key, None)
        elif status < 400 or key in self._known_keys:
            self._known_keys[key] = f"user:{user_id}" if user_id else key
            self._known_keys.move_to_end(key)
            while len(self._known_keys) > _MAX_KNOWN:
                self._known_keys.popitem(last=False)


class _ByteBudget:
    """The share of one body in the bytes that a client may have in flight."""

    def __init__(self, totals: Counter[str], client: str, max_bytes: int) -> None:
        self._totals = totals
        self._client = client
        self._max_bytes = max_bytes
        self._reserved = 0

    def reserve(self, length: int) -> bool:
        """Reserve the length received so far or announced; False when the budget is used up."""
        additional = length - self._reserved
        if additional <= 0:
            return True
        if self._totals[self._client] + additional > self._max_bytes:
            return False
        self._totals[self._client] += additional
        self._reserved = length
        return True

    def release(self) -> None:
        """Return the bytes of a finished request."""
        if self._reserved:
            self._totals[self._client] -= self._reserved
            if not self._totals[self._client]:
                del self._totals[self._client]


class _CountedBody:
    """Counts a body while it is received; above the limit the application sees a disconnect."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int, budget: _ByteBudget) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self.budget = budget
        self._received = 0
        self._rejection: _Rejection | None = None
        self.status = 500

    async def receive(self) -> dict[str, Any]:
        if self._rejection is not None:
            return {"type": "http.disconnect"}
        message: dict[str, Any] = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            self._rejection = _too_long(self._max_bytes)
        elif not self.budget.reserve(self._received):
            self._rejection = _TOO_MANY_BYTES
        if self._rejection:
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: dict[str, Any]) -> None:
        rejection = self._rejection
        if rejection is not None and self.status == 500:
            self.status = rejection.status
            await _send_rejection(self._send, rejection)
        elif rejection is None or self.status != rejection.status:
            self.status = message.get("status", self.status)
            await self._send(message)


def _is_event_stream(scope: Scope) -> bool:
    """Return whether a request is an event stream, which counts as a connection of its user."""
    return bool(scope.get("path", "").endswith("/events"))


def _hash_key(authorization: bytes | None) -> str:
    if authorization:
        return hashlib.sha256(authorization).hexdigest()
    return ""


def client_key(scope: Scope) -> str:
    """Return the name under which the requests of an address are counted."""
    client = scope.get("client")
    if client:
        return f"address:{normalize_address(client[0])}"
    return "address:"


@functools.lru_cache(maxsize=_MAX_KNOWN)
def normalize_address(host: str) -> str:
    """Return the /64 network of an IPv6 address: one client usually has all of its addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def content_length(scope: Scope) -> int:
    """Return the announced length of a body; 0 when there is none."""
    value = dict(scope["headers"]).get(b"content-length", b"")
    if value.isdigit() and len(value) < 20:
        return int(value)
    return 0


async def _send_rejection(send: Send, rejection: _Rejection) -> None:
    await send_error(
        send, rejection.status, rejection.detail, rejection.code, retry_after=rejection.retry_after
    )


async def send_error(
    send: Send, status: int, detail: str, code: str, retry_after: float | None = None
) -> None:
    """Send an error response; the connection is closed when a body remains unread."""
    body = encode({"detail": detail, "code": code})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(retry_after + 0.5))).encode()))
    # Otherwise the rest of the body would be read as the next request.
    if code in ("too_long", _TOO_MANY_BYTES.code):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
