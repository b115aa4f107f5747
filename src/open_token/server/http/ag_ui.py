"""The route of AG-UI: a run of a thread, as events."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from open_token.server.core import messages
from open_token.server.core.messages import MessageRun
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.http.auth import ServicesDep, WriteCaller
from open_token.server.protocols.ag_ui import (
    AgUiStream,
    RunInput,
    build_message,
    derive_session_id,
    parse_input,
)
from open_token.server.store.interface import ConflictError
from open_token.server.store.rows import Caller
from open_token.server.ws.frames import Frame
from open_token.server.ws.sse import RunEncoder, stream_message

router = APIRouter(tags=["AG-UI"])
_encode = msgspec.json.Encoder().encode
_EXAMPLE = {
    "threadId": "thread-1",
    "runId": "run-1",
    "messages": [{"id": "m1", "role": "user", "content": "Why does it fail?"}],
    "tools": [],
    "context": [],
    "state": {},
    "forwardedProps": {},
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events of the run",
        "content": {
            "text/event-stream": {
                # Tools differ in what they check of a stream: its text, or each event as an object.
                "schema": {},
                "example": 'data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}\n\n',
            }
        },
    }
}


@router.post(
    "/api/ag-ui",
    response_class=StreamingResponse,
    responses=_RESPONSES,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
        }
    },
)
async def run_agent(
    request: Request, services: ServicesDep, caller: WriteCaller
) -> StreamingResponse:
    """Run an agent for a client of AG-UI. `threadId` is the id of a session, or a name for one; the
    messages after the last answer are sent, and a run with the same `runId` is one run."""
    given = parse_input(await request.body())
    message = build_message(given)
    session_id = await _find_session(services, caller, given)
    payload = {**message, "session_id": session_id}
    sent = await messages.send_message(services, caller, payload)
    return stream_message(services, caller, sent, encoder=_AgUiEncoder(given))


async def _find_session(services: Services, caller: Caller, given: RunInput) -> str:
    owner = caller.user.id
    for session_id in (given.thread_id, derive_session_id(owner, given.thread_id)):
        if await services.store.session(owner, session_id) is not None:
            return session_id
    try:
        await services.journal.create(owner, {"id": session_id})
    except ConflictError:
        # Another request has created it meanwhile.
        if await services.store.session(owner, session_id) is None:
            raise
    return session_id


class _AgUiEncoder(RunEncoder):
    """Encodes a run as events of AG-UI."""

    def __init__(self, given: RunInput) -> None:
        self._stream = AgUiStream(given)

    def start(self, run: MessageRun) -> bytes:
        """Return the first event."""
        return _encode_events(self._stream.start())

    def encode(self, frame: Frame) -> bytes:
        """Return the events for a batch of items."""
        return b"".join(_encode_events(self._stream.take(item)) for item in frame.items)

    def fail(self, problem: ApiError) -> bytes:
        """Return the event of an error."""
        return _encode_events([self._stream.fail(problem.detail, problem.code)])


def _encode_events(events: Any) -> bytes:
    return b"".join(b"data: %s\n\n" % _encode(event) for event in events)
