"""What one client may take up: length of bodies, requests a minute and at once; plain ASGI, before
all else."""

import functools
import hashlib
import ipaddress
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from open_token.model.session_types import encode
from open_token.server.config import Limits

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Any]
Receive = Callable[[], Any]
_MOST_KNOWN = 20_000
_UPLOADS = re.compile(r".*/api/sessions/(?:import|preview-import|[^/]+/upload(?:/.*)?)", re.DOTALL)
"""The routes that take uploads; for all others a body is a body, whatever it calls itself."""
_TOO_MUCH = (429, "too many long bodies at once; wait until some are sent", "too_many_bytes")
_PATIENCE = 5.0
"""Seconds after which a client may try again to send a long body."""


class Buckets:
    """So many a minute for each name: a bucket that fills by itself, and a burst of a minute's
    worth at most."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_minute / 60
        self._most = float(per_minute)
        self._now = now
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Take one; 0 when there was one, else the seconds until there will be."""
        now = self._now()
        level, since = self._held.get(name, (self._most, now))
        level = min(self._most, level + (now - since) * self._per_second)
        is_there = level >= 1
        self._held[name] = (level - 1 if is_there else level, now)
        self._held.move_to_end(name)
        while len(self._held) > _MOST_KNOWN:
            self._held.popitem(last=False)
        return 0.0 if is_there else (1 - level) / self._per_second


class Limited:
    """Refuses with 413 and 429 what is more than a client may take up.

    A key that was accepted before has limits of its own; whoever tries other keys shares those of
    the address."""

    def __init__(self, app: Any, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._limits = limits
        self._buckets = Buckets(limits.requests_per_minute, now)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._at_once: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(
            reversed(scope["headers"])
        )  # of two alike the first one counts, as it does for the app
        key = _digest(headers.get(b"authorization"))
        name = key if key in self._known else address_of(scope)
        if seconds := self._buckets.wait(name):
            await refuse(
                send, 429, "too many requests; wait a little", "rate_limited", retry_after=seconds
            )
        elif not _lasts(scope) and self._at_once[name] >= self._limits.connections_per_user:
            await refuse(
                send, 429, "too many requests at once", "too_many_connections", retry_after=1
            )
        elif length_of(scope) > (most := self._most(scope, headers)):
            await refuse(send, 413, f"the body is longer than {most} bytes", "too_long")
        elif not (taken := _Taken(self._bytes, name, max(self._limits.bodies_bytes, most))).has(
            length_of(scope)
        ):
            await refuse(send, *_TOO_MUCH, retry_after=_PATIENCE)
        else:
            await self._counted(scope, _Body(receive, send, most, taken), name, key)

    def _most(self, scope: Scope, headers: dict[bytes, bytes]) -> int:
        is_form = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
        is_upload = is_form and _UPLOADS.fullmatch(scope.get("path", ""))
        return self._limits.upload_bytes if is_upload else self._limits.body_bytes

    async def _counted(self, scope: Scope, body: "_Body", name: str, key: str) -> None:
        weight = 0 if _lasts(scope) else 1
        self._at_once[name] += weight
        try:
            await self._app(scope, body.receive, body.send)
        finally:
            self._at_once[name] -= weight
            if not self._at_once[name]:
                del self._at_once[name]
            body.taken.give_back()
        if key:
            self._learn(key, body.status)

    def _learn(self, key: str, status: int) -> None:
        """Keep which keys are good ones."""
        if status == 401:
            self._known.pop(key, None)
        elif status < 400 or key in self._known:
            self._known[key] = None
            self._known.move_to_end(key)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


class _Taken:
    """What a body has of the bytes that a client's bodies may have together, while they are under
    way."""

    def __init__(self, all_of: Counter[str], name: str, most: int) -> None:
        self._all, self._name, self._most = all_of, name, most
        self._own = 0

    def has(self, length: int) -> bool:
        """Take as much as a body has by now, or says that it will have; False when that is too
        much."""
        more = length - self._own
        if more > 0:
            if self._all[self._name] + more > self._most:
                return False
            self._all[self._name] += more
            self._own = length
        return True

    def give_back(self) -> None:
        """The request is over."""
        if self._own:
            self._all[self._name] -= self._own
            if not self._all[self._name]:
                del self._all[self._name]


class _Body:
    """A body that is counted as it comes; when it is too long the app hears that the client
    left."""

    def __init__(self, receive: Receive, send: Send, most: int, taken: _Taken) -> None:
        self._receive, self._send, self._most, self.taken = receive, send, most, taken
        self._so_far = 0
        self._over: tuple[int, str, str] | None = None
        self.status = 500

    async def receive(self) -> dict[str, Any]:
        if self._over:
            return {"type": "http.disconnect"}
        message: dict[str, Any] = await self._receive()
        self._so_far += len(message.get("body", b""))
        if self._so_far > self._most:
            self._over = (413, f"the body is longer than {self._most} bytes", "too_long")
        elif not self.taken.has(self._so_far):
            self._over = _TOO_MUCH
        return {"type": "http.disconnect"} if self._over else message

    async def send(self, message: dict[str, Any]) -> None:
        if self._over and self.status == 500:
            self.status = self._over[0]
            await refuse(
                self._send, *self._over, retry_after=None if self.status == 413 else _PATIENCE
            )
        elif not self._over or self.status != self._over[0]:
            self.status = message.get("status", self.status)
            await self._send(message)


def _lasts(scope: Scope) -> bool:
    """Event streams stay open for hours; they are counted with the other connections of their
    user."""
    return bool(scope.get("path", "").endswith("/events"))


def _digest(authorization: bytes | None) -> str:
    return hashlib.sha256(authorization).hexdigest() if authorization else ""


def address_of(scope: Scope) -> str:
    """The name under which an address is counted."""
    client = scope.get("client")
    return f"address:{counted_as(client[0])}" if client else "address:"


@functools.lru_cache(maxsize=_MOST_KNOWN)
def counted_as(host: str) -> str:
    """Whoever has one address of IPv6 has all that begin with the same 64 bits, and is one
    client."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def length_of(scope: Scope) -> int:
    """How long a body says that it is; 0 when it does not say."""
    told = dict(scope["headers"]).get(b"content-length", b"")
    return int(told) if told.isdigit() and len(told) < 20 else 0


async def refuse(
    send: Send, status: int, detail: str, code: str, retry_after: float | None = None
) -> None:
    """Answer that it is too much; the rest of a body that is too long is not read."""
    body = encode({"detail": detail, "code": code})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(retry_after + 0.5))).encode()))
    if code in ("too_long", _TOO_MUCH[2]):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
