"""Routes that are compatible with the OpenAI Responses API."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from open_token.model.log_events import Json, NewEvent
from open_token.server.agent.models import build_registry
from open_token.server.core import messages, sessions
from open_token.server.core.messages import MessageRun, SentMessage
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, not_found
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.messages import wait_while_connected
from open_token.server.http.openapi import describe_response
from open_token.server.http.responses import json_response
from open_token.server.protocols.responses_output import (
    ResponseBuilder,
    ResponseStream,
    restore_request,
)
from open_token.server.protocols.responses_request import (
    ResponseId,
    ResponseRequest,
    build_history,
    build_message,
    decode_response_id,
    parse_request,
)
from open_token.server.store.rows import Caller
from open_token.server.ws.frames import Frame
from open_token.server.ws.sse import RunEncoder, stream_message
from open_token.session import SessionState
from open_token.session.actions import build_text_blocks, send_user_message

router = APIRouter(tags=["OpenAI Responses"])
_RESPONSE = {
    "id": "resp_c2Vzc183RnEybVc5eEtjM1J0WTFiL21zZ18x",
    "object": "response",
    "status": "completed",
    "model": "demo",
    "output": [
        {
            "id": "msg_turn_2_0",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
        }
    ],
}
_MODEL = {"id": "demo", "object": "model", "created": 0, "owned_by": "open-token"}
_OBJECT = {"type": "object"}
_encode = msgspec.json.Encoder().encode


@router.get(
    "/v1/models",
    responses=describe_response(_OBJECT, {"object": "list", "data": [_MODEL]}),
)
async def list_models(services: ServicesDep, caller: ReadCaller) -> Response:
    """List the available models, as OpenAI's API does."""
    offered = build_registry(services.config, services.env).offered
    data = [{**_MODEL, "id": model["id"]} for model in offered]
    return json_response({"object": "list", "data": data})


@router.post(
    "/v1/responses",
    responses=describe_response(_OBJECT, _RESPONSE, "The response; with `stream` its events"),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": _OBJECT,
                    "example": {"model": "demo", "input": "Why does it fail?"},
                }
            },
        }
    },
)
async def create(request: Request, services: ServicesDep, caller: WriteCaller) -> Response:
    """Send a message in the form of OpenAI's Responses API: a new session, or with
    `previous_response_id` or `conversation` one that continues."""
    try:
        body = msgspec.json.decode(await request.body() or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise ApiError(400, "request body is not valid JSON", "invalid") from None
    given = parse_request(body)
    message = build_message(given)
    history = build_history(given)
    session_id = await _open_session(services, caller, given)
    if history:
        await _write_history(services, caller.user.id, session_id, history)
    state = await services.journal.state(caller.user.id, session_id)
    _convert_answers(message, state)
    sent = await messages.send_message(services, caller, {**message, "session_id": session_id})
    response_id = ResponseId(session_id, sent.client_message_id)
    if given.stream:
        encoder = _ResponseEncoder(response_id, given)
        return stream_message(services, caller, sent, encoder=encoder)
    if given.background:
        builder = ResponseBuilder(response_id, services.clock.now(), given)
        return json_response(builder.build("queued"))
    return json_response(
        await wait_while_connected(services, caller, _wait(services, sent, response_id, given))
    )


@router.get("/v1/responses/{response_id}", responses=describe_response(_OBJECT, _RESPONSE))
async def retrieve(
    services: ServicesDep,
    caller: ReadCaller,
    response_id: str,
    stream: Annotated[bool, Query(description="Answer with the events of the response.")] = False,
    starting_after: Annotated[
        int, Query(ge=-1, le=1 << 53, description="The sequence number of the last event received.")
    ] = -1,
) -> Response:
    """Get a response, or with `stream` its events after `starting_after`."""
    name, sent = await _find_response(services, caller, response_id)
    if stream:
        encoder = _ResponseEncoder(name, None, starting_after)
        return stream_message(services, caller, sent, encoder=encoder)
    state = await services.journal.state(caller.user.id, name.session_id)
    if sent.client_message_id not in state.sent:
        return json_response(
            ResponseBuilder(name, services.clock.now(), ResponseRequest()).build("queued")
        )
    run = await messages.find_run(services, sent)
    if run is None:
        raise not_found("response")
    if run.ended is None:
        builder = ResponseBuilder(name, run.started_at, restore_request(run))
        return json_response(builder.build("in_progress"))
    return json_response(await _build_ended(services, sent, run, name, restore_request(run)))


@router.post("/v1/responses/{response_id}/cancel", responses=describe_response(_OBJECT, _RESPONSE))
async def cancel(services: ServicesDep, caller: WriteCaller, response_id: str) -> Response:
    """Stop the run of a response."""
    name, sent = await _find_response(services, caller, response_id)
    run = await messages.find_run(services, sent)
    if run is None:
        raise not_found("response")
    state = await services.journal.state(caller.user.id, name.session_id)
    if state.run is not None and state.run.run_id == run.run_id:
        await services.chat.stop(caller, name.session_id)
    return json_response(await _build_ended(services, sent, run, name, restore_request(run)))


async def _find_response(
    services: Services, caller: Caller, response_id: str
) -> tuple[ResponseId, SentMessage]:
    name = decode_response_id(response_id)
    sent = await messages.find_sent_message(
        services, caller.user.id, name.session_id, name.client_message_id
    )
    if sent is None:
        raise not_found("response")
    return name, sent


async def _open_session(services: Services, caller: Caller, given: ResponseRequest) -> str:
    """Return the session of a request: that of the response before it, a named one, or a new one."""
    if given.previous_response_id:
        name, sent = await _find_response(services, caller, given.previous_response_id)
        await _return_to(services, sent)
        return name.session_id
    conversation = given.conversation
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    if isinstance(conversation, str):
        if await services.store.session(caller.user.id, conversation) is None:
            raise not_found("conversation")
        return conversation
    if conversation is not None:
        raise ApiError(400, "conversation must be an id", "invalid")
    new = sessions.NewSession(model=given.model)
    return await sessions.create_session(services, caller, new)


async def _write_history(
    services: Services, owner: str, session_id: str, history: list[tuple[str, str]]
) -> None:
    """Begin a session with the messages that a client has from elsewhere."""
    name = services.clock.name
    events: list[NewEvent] = []
    for role, text in history:
        turn_id = name("turn")
        if role == "user":
            blocks = build_text_blocks(text)
            events += send_user_message(turn_id, blocks, checkpoint_id=name("cp"))
        else:
            events.append(("turn.opened", {"turn": {"turn_id": turn_id}, "imported": True}))
            events.append(("text.delta", {"turn_id": turn_id, "text": text}))
            events.append(("turn.ended", {"turn_id": turn_id}))
    await services.journal.write(owner, session_id, lambda _: events)


async def _return_to(services: Services, sent: SentMessage) -> None:
    """Continue after a response; if others followed it, on a new branch."""
    run = await messages.find_run(services, sent)
    if run is None:
        raise not_found("response")
    outcome = await messages.wait_for_outcome(services, sent, run)
    last = outcome.turns[-1].id

    def build_move(state: SessionState) -> list[tuple[str, Json]]:
        if state.head == last:
            return []
        if state.run is not None:
            raise ApiError(409, "a run is in progress; stop it or wait", "session_busy")
        return [("branch.moved", {"head": last, "reason": "switch"})]

    await services.journal.write(sent.owner, sent.session_id, build_move)


def _convert_answers(message: Json, state: SessionState) -> None:
    """Turn the output of a call that is a question into an answer."""
    results = message.get("tool_results") or []
    for result in results:
        question = state.questions.get(result["tool_call_id"])
        if question is None or getattr(question, "kind", "question") != "question":
            continue
        if len(results) > 1 or not isinstance(result["result"], str):
            raise ApiError(400, "a question is answered by one text", "invalid")
        del message["tool_results"]
        message["askuser_answer"] = _parse_answer(result["tool_call_id"], result["result"])
        return


def _parse_answer(call_id: str, text: str) -> Json:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = None
    answer: Json = {"tool_call_id": call_id}
    if isinstance(value, dict) and value.keys() & {"selections", "custom"}:
        return {**value, **answer}
    return {**answer, "custom": {"0": text}}


async def _wait(
    services: Services, sent: SentMessage, response_id: ResponseId, given: ResponseRequest
) -> Json:
    run = await messages.find_run(services, sent)
    if run is None:
        raise ApiError(409, "a replay does not answer messages", "replay")
    return await _build_ended(services, sent, run, response_id, given)


async def _build_ended(
    services: Services,
    sent: SentMessage,
    run: MessageRun,
    response_id: ResponseId,
    given: ResponseRequest,
) -> Json:
    outcome = await messages.wait_for_outcome(services, sent, run)
    builder = ResponseBuilder(response_id, run.started_at, given)
    return builder.build_end(outcome.ended, outcome.turns, outcome.ended_at)


class _ResponseEncoder(RunEncoder):
    """Encodes a run as the events of a response."""

    def __init__(
        self, response_id: ResponseId, given: ResponseRequest | None, after: int = -1
    ) -> None:
        self._response_id = response_id
        self._given = given
        self._after = after
        self._stream: ResponseStream | None = None

    def start(self, run: MessageRun) -> bytes:
        """Return the first events."""
        given = self._given or restore_request(run)
        builder = ResponseBuilder(self._response_id, run.started_at, given)
        self._stream = ResponseStream(builder)
        return b"".join(self._encode(event) for event in self._stream.start())

    def encode(self, frame: Frame) -> bytes:
        """Return the events for a batch of items."""
        if self._stream is None:
            return b""
        parts = []
        for item in frame.items:
            parts += [self._encode(event) for event in self._stream.take(item)]
        return b"".join(parts)

    def fail(self, problem: ApiError) -> bytes:
        """Return the event of an error."""
        if self._stream is not None:
            return self._encode(self._stream.fail(problem.detail))
        error = {"type": "error", "code": problem.code, "message": problem.detail, "param": None}
        return self._encode({"sequence_number": self._after + 1, **error})

    def _encode(self, event: Json) -> bytes:
        if event["sequence_number"] <= self._after:
            return b""
        return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), _encode(event))
