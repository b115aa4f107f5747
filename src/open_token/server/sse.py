"""The log of a session as server-sent events: what live clients get in batches, for whoever can
read HTTP."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from open_token.server.feed import Subscription
from open_token.server.frames import Frame
from open_token.server.http.auth import Reader, Serving
from open_token.server.refusals import Refused, bad

CUT = "open_token.cut"
"""Where a request has a function that ends its connection at once."""
router = APIRouter(tags=["live"])
_KEEP_ALIVE = 15.0
_PATIENCE = 60.0
"""Seconds in which a reader must take something of what is sent."""
_log = logging.getLogger(__name__)
_MOST_DIGITS = 15
_EXAMPLE = (
    'id: 12\ndata: {"type":"turn:patch","payload":{"session_id":"sess_7","sequence":4,"turn_id":"turn_2",'
    '"loop_id":"root","patch_type":"add_content","data":{"type":"text","text_delta":"a word","block_index":1}},'
    '"stream_sequence":12}\n\n'
)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One event for each item of `turn:events`; its id is the stream sequence from which to go on.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    404: {"description": "There is no such session."},
    429: {"description": "The user has as many connections open as one may have."},
}


class _Stream:
    """What a reader has not taken yet; when that is too much the reader is cut off, and may go on
    from its id."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self.cut: Callable[[], None] = lambda: None
        """Ends the connection at once, also while bytes for it wait that never leave."""
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_over = False

    def take(self, frame: Frame) -> None:
        if not frame.items or self._is_over:
            return
        data = frame.made.get("sse")
        if data is None:
            both = zip(frame.items, frame.parts, strict=True)
            data = b"".join(
                b"id: %d\ndata: %s\n\n" % (item["stream_sequence"], part) for item, part in both
            )
            frame.made["sse"] = data
        if self._size > self._most:
            _log.info("a reader of an event stream takes nothing and is cut off")
            self._is_over = True
            self._parts.clear()
            self.cut()
        else:
            self._parts.append(data)
            self._size += len(data)
        self._news.set()

    async def room(self) -> None:
        while self._size > self._most // 4 and not self._is_over:
            self._taken.clear()
            await self._taken.wait()

    def ended(self, problem: Refused) -> None:
        self._is_over = True
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        while True:
            while self._parts:
                data = self._parts.popleft()
                self._size -= len(data)
                self._taken.set()
                patience = asyncio.get_running_loop().call_later(_PATIENCE, self.cut)
                try:
                    yield data
                finally:
                    patience.cancel()
            if self._is_over:
                return
            self._news.clear()
            try:
                async with asyncio.timeout(_KEEP_ALIVE):
                    await self._news.wait()
            except TimeoutError:
                yield b": nothing new\n\n"


class _Events(StreamingResponse):
    """A stream that is given up when its reader goes, however early."""

    def __init__(self, stream: _Stream, leave: Any) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(aiter(stream), media_type="text/event-stream", headers=headers)
        self._stream = stream
        self._leave = leave

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._stream.cut = scope.get(CUT, self._stream.cut)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


@router.get(
    "/api/sessions/{session_id}/events", response_class=StreamingResponse, responses=_RESPONSES
)
async def events(
    services: Serving,
    caller: Reader,
    session_id: str,
    after: Annotated[
        int, Query(ge=0, le=10**_MOST_DIGITS, description="The last stream sequence that you have.")
    ] = 0,
    last_event_id: Annotated[
        str | None, Header(description="The same, as browsers send it; it goes first.")
    ] = None,
) -> StreamingResponse:
    """Everything that happens to a session, from an entry of its log on, as server-sent events."""
    if last_event_id:
        if (
            not last_event_id.isascii()
            or not last_event_id.isdigit()
            or len(last_event_id) > _MOST_DIGITS
        ):
            raise bad("Last-Event-ID is a stream sequence")
        after = int(last_event_id)
    stream = _Stream(services.config.limits.pending_bytes)
    guest = services.connections.enter(caller, stream.ended)
    subscription: Subscription | None = None

    def leave() -> None:
        services.connections.leave(guest)
        if subscription is not None:
            subscription.close()

    try:
        subscription = await services.feed.subscribe(
            caller.user.id, session_id, "raw", after, stream
        )
    except BaseException:
        leave()
        raise
    return _Events(stream, leave)
