"""The route that sends a message: its answer is the end of the run, or its events as a stream."""

import asyncio
from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from msgspec import Struct

from open_token.server.core import messages
from open_token.server.core.chat_request import ChatRequest
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request
from open_token.server.http.auth import ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_body, describe_response
from open_token.server.http.responses import json_response
from open_token.server.store.rows import Caller
from open_token.server.ws.sse import parse_event_id, stream_message

T = TypeVar("T")
router = APIRouter(tags=["sessions"])
_NOT_IN_BODY = ("session_id", "more")

NewMessage = msgspec.defstruct(
    "NewMessage",
    [
        ("message", str | list[dict[str, Any]]),
        *[
            (field.name, field.type, None)
            for field in msgspec.structs.fields(ChatRequest)
            if field.name not in (*_NOT_IN_BODY, "message")
        ],
    ],
    kw_only=True,
)
NewMessage.__doc__ = "A message to the agent: the fields of `chat:send`."


class MessageOutcome(Struct, kw_only=True):
    """The end of a run, as in `chat:end`, with its turns and the questions that it asked."""

    session_id: str
    status: str
    result: dict[str, Any]
    finish_reason: str
    chat_run_id: str
    session_status: str
    stream_sequence: int
    turn_id: str
    client_message_id: str
    text: str
    usage: dict[str, int]
    questions: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    duration_ms: int | None = None
    config_snapshot: dict[str, Any] | None = None


class Stopped(Struct):
    """Whether there was a run to stop."""

    status: str
    stopped: bool


_OUTCOME = {
    "session_id": "sess_7Fq2mW9xKc3RtY1b",
    "status": "completed",
    "result": {"result": "The test fails because of a typo."},
    "finish_reason": "completed",
    "chat_run_id": "run_5Gx0",
    "session_status": "completed",
    "duration_ms": 1840,
    "stream_sequence": 27,
    "turn_id": "turn_2Lk5",
    "client_message_id": "order-17",
    "text": "The test fails because of a typo.",
    "usage": {"input_tokens": 500, "output_tokens": 20},
    "questions": [],
    "turns": [],
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    **describe_response(MessageOutcome, _OUTCOME, "The end of the run; with `stream` its events"),
    202: {"description": "Accepted, with `wait=false`: the acknowledgement of `chat:send`"},
}
_ANSWERS[200]["content"]["text/event-stream"] = {
    # Tools differ in what they check of a stream: its text, or each event as an object.
    "schema": {},
    "example": 'id: 12\ndata: {"type":"chat:start","payload":{},"stream_sequence":12}\n\n',
}


@router.post(
    "/api/sessions/{session_id}/messages",
    responses=_ANSWERS,
    openapi_extra=describe_body(
        NewMessage, {"message": "Why does it fail?", "client_message_id": "order-17"}
    ),
)
async def send(
    request: Request,
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    stream: Annotated[
        bool, Query(description="Answer with the events of the run as server-sent events.")
    ] = False,
    wait: Annotated[
        bool, Query(description="Wait for the end of the run; otherwise answer at once.")
    ] = True,
    last_event_id: Annotated[
        str | None,
        Header(description="Resume a stream: sent with the same body and client_message_id."),
    ] = None,
) -> Response:
    """Send a message, and answer with the end of its run; sent again with the same
    `client_message_id` it is not a second message. The body is that of `chat:send`."""
    payload = await _read_payload(request, session_id)
    after = parse_event_id(last_event_id) if last_event_id else 0
    if after and not payload.get("client_message_id"):
        raise bad_request("to resume, send the client_message_id of the message again")
    sent = await messages.send_message(services, caller, payload)
    if stream:
        return stream_message(services, caller, sent, after)
    if not wait:
        return json_response(_build_acceptance(sent), 202)
    return json_response(await wait_while_connected(services, caller, _wait(services, sent)))


@router.post(
    "/api/sessions/{session_id}/stop",
    responses=describe_response(Stopped, {"status": "ok", "stopped": True}),
)
async def stop(services: ServicesDep, caller: WriteCaller, session_id: str) -> Response:
    """Stop the current run, as `chat:stop` does; everything logged so far stays."""
    return json_response(await services.chat.stop(caller, session_id))


async def _wait(services: Services, sent: messages.SentMessage) -> dict[str, Any]:
    run = await messages.find_run(services, sent)
    if run is None:
        return _build_acceptance(sent)
    outcome = await messages.wait_for_outcome(services, sent, run)
    return messages.describe_outcome(sent, run, outcome)


def _build_acceptance(sent: messages.SentMessage) -> dict[str, Any]:
    return {**sent.ack, "client_message_id": sent.client_message_id}


async def _read_payload(request: Request, session_id: str) -> dict[str, Any]:
    try:
        payload = msgspec.json.decode(await request.body() or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise bad_request("request body is not valid JSON", "invalid") from None
    if not isinstance(payload, dict):
        raise bad_request("request body is not a JSON object", "invalid")
    if payload.get("session_id", session_id) != session_id:
        raise bad_request("session_id of the body is not that of the path")
    return {**payload, "session_id": session_id}


async def wait_while_connected(services: Services, caller: Caller, work: Awaitable[T]) -> T:
    """Wait for an answer until the key of the caller is revoked or the server stops."""
    task = asyncio.ensure_future(work)
    problems: list[ApiError] = []

    def disconnect(problem: ApiError) -> None:
        problems.append(problem)
        task.cancel()

    try:
        connection = services.connections.add(caller, disconnect)
    except ApiError:
        task.cancel()
        raise
    try:
        return await task
    except asyncio.CancelledError:
        if problems:
            raise problems[0] from None
        raise
    finally:
        task.cancel()
        services.connections.remove(connection)
