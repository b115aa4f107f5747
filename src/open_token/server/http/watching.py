"""Around every request: security headers, a line in the log without content, figures, and no
traceback to anybody."""

import logging
import time
from typing import Any

from open_token.model.session_types import encode
from open_token.server.metrics import Metrics

LOG = logging.getLogger("open_token.server")
_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class Watched:
    """Measures and logs requests by the route they took, never by their path: a path may hold a
    token."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Let a request through and take note of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, size = time.perf_counter(), 0, 0

        async def seen(message: dict[str, Any]) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _with_ours(message.get("headers", ()))}
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, seen)
        except Exception as problem:
            LOG.error("a request failed inside the server", extra={"fields": _place(problem)})
            if not status:
                await _fail(seen)
        finally:
            self._note(scope, status or 499, size, time.perf_counter() - start)

    def _note(self, scope: dict[str, Any], status: int, size: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route = str(getattr(scope.get("route"), "path", "") or "")
        self._metrics.count(
            "open_token_requests_total", method=method, route=route, status=str(status)
        )
        self._metrics.observe("open_token_request_seconds", seconds, method=method, route=route)
        if LOG.isEnabledFor(logging.INFO):
            fields: dict[str, Any] = {"method": method, "route": route, "status": status}
            fields |= {"ms": round(seconds * 1000, 1), "bytes": size}
            if user := scope.get("open_token.user"):
                fields["user"] = user
            LOG.info("request", extra={"fields": fields})


def _with_ours(headers: Any) -> list[tuple[bytes, bytes]]:
    """What the route said stays."""
    made = list(headers)
    there = {name.lower() for name, _ in made}
    return made + [pair for pair in _HEADERS if pair[0] not in there]


def _place(problem: Exception) -> dict[str, Any]:
    """Which error, and in which line of ours: its words may be a client's."""
    trace, place = problem.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "open_token" in code.co_filename:
            place = f"{code.co_filename.rpartition('open_token/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return {"error": type(problem).__name__, "at": place}


async def _fail(send: Any) -> None:
    body = encode({"detail": "something went wrong inside the server", "code": "internal"})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
