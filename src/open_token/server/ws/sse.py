"""Session events as server-sent events: the items of `turn:events`, one event each."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from open_token.errors import StoreError
from open_token.model.session_types import encode
from open_token.server.core.messages import MessageRun, SentMessage, find_run
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request, to_api_error
from open_token.server.http.auth import ReadCaller, ServicesDep
from open_token.server.store.rows import Caller
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
        self.encode: Callable[[Frame], bytes] = _encode_frame
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
            data = self.encode(frame)
            self._parts.append(data)
            self._size += len(data)
        self._added.set()

    async def wait_for_capacity(self) -> None:
        while self._size > self._max_bytes // 4 and not self._is_over:
            self._taken.clear()
            await self._taken.wait()

    def on_end(self, problem: ApiError) -> None:
        self.finish()

    def finish(self) -> None:
        """End the stream after what is queued."""
        self._is_over = True
        self._added.set()

    def add(self, data: bytes) -> None:
        """Add encoded events."""
        self._parts.append(data)
        self._size += len(data)
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


@dataclass(eq=False)
class _RunSink:
    """Passes the events of a run on, and ends the stream after the last one."""

    stream: _Stream
    run_id: str

    def send(self, frame: Frame) -> None:
        self.stream.send(frame)
        # An end of a run is the last item of its batch.
        last = frame.items[-1] if frame.items else None
        if last is None or last["type"] != "chat:end":
            return
        if last["payload"]["chat_run_id"] == self.run_id:
            self.stream.finish()

    async def wait_for_capacity(self) -> None:
        await self.stream.wait_for_capacity()

    def on_end(self, problem: ApiError) -> None:
        self.stream.on_end(problem)


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
        after = parse_event_id(last_event_id)
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


class RunEncoder:
    """Encodes the events of a run as the items of `turn:events`; other protocols override it."""

    def start(self, run: MessageRun) -> bytes:
        """Return what comes before the first item."""
        return b""

    def encode(self, frame: Frame) -> bytes:
        """Return the events for a batch of items."""
        return _encode_frame(frame)

    def fail(self, problem: ApiError) -> bytes:
        """Return the event of an error, which has no id: a client that resumes gets it again."""
        error = {"message": problem.detail, "code": problem.code, "detail": problem.detail}
        return b"data: %s\n\n" % encode({"type": "system:error", "payload": error})


def stream_message(
    services: Services,
    caller: Caller,
    sent: SentMessage,
    after: int = 0,
    encoder: RunEncoder | None = None,
) -> StreamingResponse:
    """Stream the events of the run of a message, and end after its `chat:end`."""
    encoder = encoder or RunEncoder()
    stream = _Stream(services.config.limits.pending_bytes)
    stream.encode = encoder.encode
    connection = services.connections.add(caller, stream.on_end)
    subscriptions: list[Subscription] = []

    async def connect() -> None:
        try:
            run = await find_run(services, sent)
            if run is None or (run.ended is not None and run.ended <= after):
                stream.finish()
                return
            stream.add(encoder.start(run))
            sink = _RunSink(stream, run.run_id)
            position = max(after, run.position)
            subscriptions.append(
                await services.feed.subscribe(sent.owner, sent.session_id, "raw", position, sink)
            )
        except ApiError as problem:
            stream.add(encoder.fail(problem))
            stream.finish()
        except StoreError as problem:
            stream.add(encoder.fail(to_api_error(problem)))
            stream.finish()

    connecting = asyncio.ensure_future(connect())

    def release() -> None:
        connecting.cancel()
        services.connections.remove(connection)
        for subscription in subscriptions:
            subscription.close()

    return _EventStreamResponse(stream, release)


def parse_event_id(text: str) -> int:
    """Parse the header Last-Event-ID."""
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise bad_request("Last-Event-ID must be a stream sequence")
    return int(text)
