"""Session events as server-sent events: the items of `turn:events`, one event each."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from open_token.server.errors import ApiError, bad_request
from open_token.server.http.auth import ReadCaller, ServicesDep
from open_token.server.ws.feed import Subscription
from open_token.server.ws.frames import Frame

ABORT_KEY = "open_token.abort"
"""The key of the ASGI scope with a function that aborts the connection of the request."""
router = APIRouter(tags=["live"])
_KEEP_ALIVE = 15.0
_SEND_TIMEOUT = 60.0
"""Seconds within which a client must read a chunk."""
_log = logging.getLogger(__name__)
_MAX_DIGITS = 15
_EXAMPLE = (
    'id: 12\ndata: {"type":"turn:patch","payload":{"session_id":"sess_7","sequence":4,'
    '"turn_id":"turn_2","loop_id":"root","patch_type":"add_content","data":{"type":"text",'
    '"text_delta":"a word","block_index":1}},"stream_sequence":12}\n\n'
)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "One event for each item of `turn:events`; its id is the stream sequence to resume from."
        ),
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    404: {"description": "No such session."},
    429: {"description": "The user has too many open connections."},
}


class _Stream:
    """The send queue of a client; one that does not read is disconnected and may resume."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.abort: Callable[[], None] = lambda: None
        """Closes the connection at once, even with unsent bytes in its buffer."""
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._added = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_over = False

    def send(self, frame: Frame) -> None:
        if not frame.items or self._is_over:
            return
        if self._size > self._max_bytes:
            _log.info("disconnecting slow event stream: send queue full")
            self._is_over = True
            self._parts.clear()
            self.abort()
        else:
            data = _encode_frame(frame)
            self._parts.append(data)
            self._size += len(data)
        self._added.set()

    async def wait_for_capacity(self) -> None:
        while self._size > self._max_bytes // 4 and not self._is_over:
            self._taken.clear()
            await self._taken.wait()

    def on_end(self, problem: ApiError) -> None:
        self._is_over = True
        self._added.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        while True:
            while self._parts:
                data = self._parts.popleft()
                self._size -= len(data)
                self._taken.set()
                timer = asyncio.get_running_loop().call_later(_SEND_TIMEOUT, self.abort)
                try:
                    yield data
                finally:
                    timer.cancel()
            if self._is_over:
                return
            self._added.clear()
            try:
                async with asyncio.timeout(_KEEP_ALIVE):
                    await self._added.wait()
            except TimeoutError:
                yield b": nothing new\n\n"


def _encode_frame(frame: Frame) -> bytes:
    """Encode a batch as events; done once for all clients."""
    data: bytes | None = frame.encoded.get("sse")
    if data is None:
        items = zip(frame.items, frame.parts, strict=True)
        data = b"".join(
            b"id: %d\ndata: %s\n\n" % (item["stream_sequence"], part) for item, part in items
        )
        frame.encoded["sse"] = data
    return data


class _EventStreamResponse(StreamingResponse):
    """A streaming response that always releases its subscription."""

    def __init__(self, stream: _Stream, release: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(aiter(stream), media_type="text/event-stream", headers=headers)
        self._stream = stream
        self._release = release

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._stream.abort = scope.get(ABORT_KEY, self._stream.abort)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


@router.get(
    "/api/sessions/{session_id}/events", response_class=StreamingResponse, responses=_RESPONSES
)
async def events(
    services: ServicesDep,
    caller: ReadCaller,
    session_id: str,
    after: Annotated[
        int, Query(ge=0, le=10**_MAX_DIGITS, description="The last stream sequence received.")
    ] = 0,
    last_event_id: Annotated[
        str | None,
        Header(description="The same, as browsers send it; it takes precedence over `after`."),
    ] = None,
) -> StreamingResponse:
    """Stream everything that happens to a session as server-sent events."""
    if last_event_id:
        after = _parse_event_id(last_event_id)
    stream = _Stream(services.config.limits.pending_bytes)
    connection = services.connections.add(caller, stream.on_end)
    subscription: Subscription | None = None

    def release() -> None:
        services.connections.remove(connection)
        if subscription is not None:
            subscription.close()

    # Once there is a response, it releases what it holds. Until then, a client that disconnects
    # cancels this function.
    try:
        subscription = await services.feed.subscribe(
            caller.user.id, session_id, "raw", after, stream
        )
    except BaseException:
        release()
        raise
    return _EventStreamResponse(stream, release)


def _parse_event_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise bad_request("Last-Event-ID must be a stream sequence")
    return int(text)
