"""HTTP connections that nobody holds open by sending nothing, or a letter at a time; uvicorn would
wait for good."""

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from open_token.server.limits import counted_as

HEAD, BODY = 20.0, 60.0
"""Seconds for the head of a request, and between two pieces of a body."""
SILENT = 1000
"""Connections of one address that have not made a request yet."""


class Patient(H11Protocol):
    """A connection that is closed when a request does not come, or comes to a halt."""

    head, body, silent = HEAD, BODY, SILENT
    _without_request: ClassVar[Counter[str]] = Counter()
    _is_counted = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there; with too many of them who say nothing, they are sent away at once."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._peer = counted_as(self.client[0]) if self.client else ""
        self._without_request[self._peer] += 1
        self._is_counted = True
        if self._without_request[self._peer] > self.silent:
            transport.abort()
            return
        self._timer = self.loop.call_later(self.head, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._heard()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._since = self.loop.time()
        super().data_received(data)
        if self.cycle is not None:
            self._heard()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Other rules begin."""
        self._heard()
        if self._timer is not None:
            self._timer.cancel()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """The next request may come."""
        self._since = self.loop.time()
        super().on_response_complete()

    def _heard(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._without_request[self._peer] -= 1
            if not self._without_request[self._peer]:
                del self._without_request[self._peer]

    def _look(self) -> None:
        """Close what has waited for too long; else look again when it will have."""
        most = self._most()
        left = self._since + most - self.loop.time()
        if left <= 0 and self._is_waiting():
            self.transport.abort()
            return
        self._timer = self.loop.call_later(max(left, most / 4), self._look)

    def _most(self) -> float:
        return self.head if self.cycle is None or self.cycle.response_complete else self.body

    def _is_waiting(self) -> bool:
        """Whether it is the client's turn to send something."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return bool(self.cycle.more_body) and not self.flow.read_paused
