"""Timeouts for slow HTTP clients; uvicorn waits for a request without limit."""

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from open_token.server.limits import normalize_address

HEAD_SECONDS = 20.0
"""The time for the head of a request."""
BODY_SECONDS = 60.0
"""The time between two chunks of a body."""
MAX_IDLE_CONNECTIONS = 1000
"""Connections of one address that have not sent a request yet."""


class TimeoutProtocol(H11Protocol):
    """An HTTP connection that is closed when a request does not arrive or stalls."""

    head_seconds = HEAD_SECONDS
    body_seconds = BODY_SECONDS
    max_idle = MAX_IDLE_CONNECTIONS
    _idle_by_address: ClassVar[Counter[str]] = Counter()
    _is_idle = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer; too many idle connections of one address are closed at once."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        self._address = normalize_address(self.client[0]) if self.client else ""
        self._idle_by_address[self._address] += 1
        self._is_idle = True
        if self._idle_by_address[self._address] > self.max_idle:
            transport.abort()
            return
        self._timer = self.loop.call_later(self.head_seconds, self._check_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_counting()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Restart the timeout of a body."""
        # Bytes of a request head do not count: a slow client could send one at a time.
        if self.cycle is not None and not self.cycle.response_complete:
            self._waiting_since = self.loop.time()
        super().data_received(data)
        if self.cycle is not None:
            self._stop_counting()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Stop the timer: WebSockets have their own limits."""
        self._stop_counting()
        if self._timer is not None:
            self._timer.cancel()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Restart the timeout for the next request."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def _stop_counting(self) -> None:
        """Remove this connection from the count of idle ones."""
        if self._is_idle:
            self._is_idle = False
            self._idle_by_address[self._address] -= 1
            if not self._idle_by_address[self._address]:
                del self._idle_by_address[self._address]

    def _check_timeout(self) -> None:
        """Close the connection after its timeout, or check again when that is due."""
        timeout = self._current_timeout()
        remaining = self._waiting_since + timeout - self.loop.time()
        if remaining <= 0 and self._is_waiting_for_client():
            self.transport.abort()
            return
        self._timer = self.loop.call_later(max(remaining, timeout / 4), self._check_timeout)

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _current_timeout(self) -> float:
        if self._is_between_requests():
            return self.head_seconds
        return self.body_seconds

    def _is_waiting_for_client(self) -> bool:
        if self._is_between_requests():
            return True
        return bool(self.cycle.more_body) and not self.flow.read_paused
