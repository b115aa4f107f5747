"""Send a message and follow the run that it starts, for senders that wait for its end.

A message is identified by its client message id: sent again, it is not a second message, and
whoever sends it again follows the same run."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from open_token.model.log_events import Json, LogEntry
from open_token.model.session_types import ROOT_LOOP, TurnProjection, to_builtins
from open_token.server.core.exchanges import find_open_questions
from open_token.server.core.services import Services
from open_token.server.errors import bad_request, conflict
from open_token.server.store.rows import Caller
from open_token.session import SessionState, to_stream_item

_PAGE_SIZE = 1000


class SentMessage(Struct, frozen=True, kw_only=True):
    """A message that was accepted."""

    owner: str
    session_id: str
    client_message_id: str
    position: int
    """The last entry of the log before the message."""
    ack: Json


class MessageRun(Struct, frozen=True, kw_only=True):
    """The run of a message."""

    run_id: str
    turn_id: str
    position: int
    """The last entry of the log before the run."""
    ended: int | None = None
    """The entry that ended it."""
    started_at: str = ""
    info: Json = msgspec.field(default_factory=dict)
    """What the log has of its order."""


class RunOutcome(Struct, frozen=True, kw_only=True):
    """The end of a run."""

    ended: Json
    """The payload of `chat:end`."""
    ended_at: str
    turns: list[TurnProjection]
    questions: list[Json]


async def send_message(services: Services, caller: Caller, payload: Json) -> SentMessage:
    """Send a message; without a client message id it gets one."""
    message_id = payload.get("client_message_id")
    if message_id is not None and not isinstance(message_id, str):
        raise bad_request("client_message_id must be a string")
    if not message_id:
        message_id = services.clock.name("msg")
        payload = {**payload, "client_message_id": message_id}
    owner = caller.user.id
    session_id = payload["session_id"]
    state = await services.journal.state(owner, session_id)
    position = state.seq
    was_known = _is_known(state, message_id)
    ack = await services.chat.send(caller, payload)
    if was_known:
        position = await _find_position(services, owner, session_id, message_id)
    return SentMessage(
        owner=owner,
        session_id=session_id,
        client_message_id=message_id,
        position=position,
        ack=ack,
    )


async def find_run(services: Services, sent: SentMessage) -> MessageRun | None:
    """Return the run of a message, once a message that is queued has one.

    None for a message that starts no run, as one to a replay."""
    state = await services.chat.wait_until(
        sent.owner,
        sent.session_id,
        lambda state: not _is_queued(state, sent.client_message_id),
    )
    if sent.client_message_id not in state.sent:
        if sent.ack.get("queued"):
            raise conflict("the message was withdrawn before it was processed", "withdrawn")
        return None
    return await _search_run(services, sent)


async def _search_run(services: Services, sent: SentMessage) -> MessageRun | None:
    started: LogEntry | None = None
    run: MessageRun | None = None
    async for entry in _read_entries(services, sent.owner, sent.session_id, sent.position):
        if entry.kind == "run.started":
            started = entry
        elif entry.kind == "turn.opened" and started is not None:
            if entry.data.get("client_message_id") == sent.client_message_id:
                run = MessageRun(
                    run_id=started.data["run_id"],
                    turn_id=entry.data["turn"]["turn_id"],
                    position=started.seq - 1,
                    started_at=started.at,
                    info=started.data.get("info") or {},
                )
        elif entry.kind == "run.ended" and run is not None:
            if entry.data["run_id"] == run.run_id:
                return msgspec.structs.replace(run, ended=entry.seq)
    return run


async def find_sent_message(
    services: Services, owner: str, session_id: str, message_id: str
) -> SentMessage | None:
    """Return a message that was sent before."""
    state = await services.journal.state(owner, session_id)
    if not _is_known(state, message_id):
        return None
    return SentMessage(
        owner=owner,
        session_id=session_id,
        client_message_id=message_id,
        position=await _find_position(services, owner, session_id, message_id),
        ack={"queued": _is_queued(state, message_id)},
    )


async def wait_for_outcome(services: Services, sent: SentMessage, run: MessageRun) -> RunOutcome:
    """Wait until a run has ended, and return its end with its turns and open questions."""
    await services.chat.wait_for_run_end(sent.owner, sent.session_id, run.run_id)
    found = await read_run(services, sent.owner, sent.session_id, run.run_id, run.position)
    if found is None:
        raise conflict("the session was replaced while the agent worked", "replaced")
    return found[1]


async def read_run(
    services: Services, owner: str, session_id: str, run_id: str, position: int
) -> tuple[MessageRun, RunOutcome] | None:
    """Return a run that has ended, and its outcome; None if the log has no such run."""
    turn_ids: list[str] = []
    started: LogEntry | None = None
    ended: LogEntry | None = None
    async for entry in _read_entries(services, owner, session_id, position):
        if entry.kind == "run.started" and entry.data["run_id"] == run_id:
            started = entry
        elif entry.kind == "turn.opened" and started is not None:
            turn_ids.append(entry.data["turn"]["turn_id"])
        elif entry.kind == "run.ended" and entry.data["run_id"] == run_id:
            ended = entry
            break
    if started is None or ended is None:
        return None
    state = await services.journal.state(owner, session_id)
    item = to_stream_item(ended, state)
    assert item is not None
    run = MessageRun(
        run_id=run_id,
        turn_id=turn_ids[0] if turn_ids else "",
        position=started.seq - 1,
        ended=ended.seq,
        started_at=started.at,
        info=started.data.get("info") or {},
    )
    outcome = RunOutcome(
        ended=item["payload"],
        ended_at=ended.at,
        turns=[state.turn(turn_id) for turn_id in turn_ids],
        questions=list_questions(state, turn_ids),
    )
    return run, outcome


def describe_outcome(sent: SentMessage, run: MessageRun, outcome: RunOutcome) -> Json:
    """Return the end of a run as the answer to its message."""
    return {
        **outcome.ended,
        "turn_id": run.turn_id,
        "client_message_id": sent.client_message_id,
        "text": get_answer(outcome.turns),
        "usage": add_usage(outcome.turns),
        "questions": outcome.questions,
        "turns": to_builtins(outcome.turns),
    }


def get_answer(turns: list[TurnProjection]) -> str:
    """Return the text of the last turn of the main agent."""
    for turn in reversed(turns):
        if turn.role == "assistant" and turn.loop_id == ROOT_LOOP:
            texts = [block.content for block in turn.blocks if block.type == "text"]
            return "".join(text for text in texts if isinstance(text, str))
    return ""


def add_usage(turns: list[TurnProjection]) -> dict[str, int]:
    """Return the sum of the usage of turns."""
    total = {"input_tokens": 0, "output_tokens": 0}
    for turn in turns:
        for name, count in (turn.usage or {}).items():
            total[name] = total.get(name, 0) + count
    return total


def list_questions(state: SessionState, turn_ids: list[str]) -> list[Json]:
    """Return the open questions that these turns have asked."""
    questions = []
    for call_id in find_open_questions(state):
        question = state.questions[call_id]
        if question.turn_id in turn_ids:
            questions.append({"tool_call_id": call_id, "questions": question.questions})
    return questions


def _is_known(state: SessionState, message_id: Any) -> bool:
    return message_id in state.sent or _is_queued(state, message_id)


def _is_queued(state: SessionState, message_id: Any) -> bool:
    queued = state.queue.values()
    return any(message.get("client_message_id") == message_id for message in queued)


async def _find_position(services: Services, owner: str, session_id: str, message_id: str) -> int:
    """Return the last entry before a message that was sent before."""
    # The store answers a repeated message with the position of the first one.
    written = await services.journal.write(
        owner, session_id, lambda _: [], client_message_id=message_id
    )
    return written.first - 1 if written.repeated else 0


async def _read_entries(
    services: Services, owner: str, session_id: str, position: int
) -> AsyncIterator[LogEntry]:
    while True:
        page = await services.store.read_log(owner, session_id, position, _PAGE_SIZE)
        if not page:
            return
        for entry in page:
            yield entry
        position = page[-1].seq
