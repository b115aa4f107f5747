"""The append-only log of a session: what a row is, the kinds of rows there are, and what each of
them says."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from open_token.turns import ToolStatus, Trigger, TurnStatus

Json = dict[str, Any]


class LogFault(ValueError):
    """An entry that does not fit the log: unknown kind, wrong shape, or about a turn that is not
    there."""


class Entry(Struct, frozen=True):
    """One row of the log; `seq` counts from 1 in each session and is the stream sequence on the
    wire."""

    session_id: str
    seq: int
    at: str
    kind: str
    data: Json


class Data(Struct, kw_only=True, omit_defaults=True):
    """What an entry says."""


class OnTurn(Data, kw_only=True):
    """About a turn. The log fills in the loop, and which patch of the turn it is."""

    turn_id: str
    loop_id: str = ""
    patch: int = 0


class SessionCreated(Data, kw_only=True):
    """The first entry: a Session as far as it is known; keys that the type does not have are
    kept."""

    session: Json


class SessionChanged(Data, kw_only=True):
    """Fields of the session that changed: its title (`intent`), model, switches, what else it was
    created with."""

    changes: Json


class RunStarted(Data, kw_only=True):
    """The agent begins to work."""

    run_id: str
    info: Json = field(default_factory=dict)


class RunEnded(Data, kw_only=True):
    """The agent stopped: done, failed or interrupted. The log fills in the status of the
    session."""

    run_id: str
    status: Literal["completed", "failed", "interrupted"] = "completed"
    finish_reason: str | None = None
    output: Any = None
    schema: Json | None = None
    error: str | None = None
    duration_ms: int | None = None
    config_snapshot: Json | None = None
    session_status: str = ""


class MessageQueued(Data, kw_only=True):
    """The person wrote while the agent was at work: the whole message, for later."""

    message_id: str
    message: Json


class MessageTaken(Data, kw_only=True):
    """A queued message has its turn now, or was withdrawn."""

    message_id: str


class CheckpointMade(Data, kw_only=True):
    """The place before a turn of the person's. The log fills in the node before it."""

    checkpoint_id: str
    turn_id: str | None = None
    label: str | None = None
    parent_id: str | UnsetType | None = UNSET


class BranchMoved(Data, kw_only=True):
    """The session goes on behind another node; None is the beginning. Nothing is deleted."""

    head: str | None
    reason: str
    checkpoint_id: str | None = None
    from_step: int | None = None
    quotes: list[Any] = field(default_factory=list)
    deprecated: list[str] = field(default_factory=list)


class TurnOpened(Data, kw_only=True):
    """A turn begins: a TurnProjection as far as it is known. The log fills in id, sequence, start
    and parent."""

    turn: Json
    parent_id: str | UnsetType | None = UNSET
    client_message_id: str | None = None
    imported: bool = False
    """Made of events of a document, which are kept beside it."""


class TurnEnded(Data, kw_only=True):
    """A turn is over; a paused one waits for an answer."""

    turn_id: str
    status: TurnStatus = "completed"
    usage: dict[str, int] | None = None
    duration_ms: int | None = None
    context_window: int | None = None
    failure_reason: str | None = None


class TurnStatusSet(OnTurn, kw_only=True):
    """A turn pauses, fails or is interrupted; its end follows."""

    status: TurnStatus
    failure_reason: str | None = None


class Delta(OnTurn, kw_only=True):
    """More words. Without a place they go on in the last block if it is of their kind, else they
    begin one."""

    text: str
    block_index: int | None = None


class BlockAdded(OnTurn, kw_only=True):
    """A block, whole; words may still be added to it."""

    block: Json
    block_index: int | None = None


class ToolCalled(OnTurn, kw_only=True):
    """A call, and with it a block of type tool_use where it was made."""

    call: Json
    block_index: int | None = None


class OnCall(OnTurn, kw_only=True):
    """About a call of a turn."""

    tool_call_id: str


class ToolArguments(OnCall, kw_only=True):
    """More of the arguments of a call."""

    delta: str


class ToolStatusSet(OnCall, kw_only=True):
    """The status of a call changed without a result; also, what the person is to answer for it."""

    status: ToolStatus
    pending_question_ref: Json | UnsetType | None = UNSET


class ToolResulted(OnCall, kw_only=True):
    """What a tool gave back."""

    result: Any = None
    status: ToolStatus = "done"
    duration_ms: int | None = None


class QuestionAsked(OnCall, kw_only=True):
    """The agent asks the person; the call waits."""

    questions: list[Json] = field(default_factory=list)
    source_loop: str | None = None


class QuestionAnswered(OnCall, kw_only=True):
    """The person answered, or the question was withdrawn; the call goes on."""

    answer: Json = field(default_factory=dict)


class ModeChanged(OnTurn, kw_only=True):
    """The agent is set to plan, or to do; with a turn, a block of it shows so."""

    turn_id: str = ""
    to: str
    before: str | None = field(default=None, name="from")
    block_index: int | None = None


class MemoryRecalled(OnTurn, kw_only=True):
    """The memories that the model was given for a turn."""

    refs: list[Json] = field(default_factory=list)


class UsageCounted(OnTurn, kw_only=True):
    """What a turn took so far. The log fills in its status, which the patch repeats."""

    usage: dict[str, int] | None = None
    duration_ms: int | None = None
    context_window: int | None = None
    status: str = ""


class Compacted(OnTurn, kw_only=True):
    """What a compaction turn came to. The log fills in its status, which the patch repeats."""

    compaction_id: str | None = None
    summary_preview: str | None = None
    summary_full: str | None = None
    archived_count: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    saved_ratio: float | None = None
    trigger: Trigger | None = None
    status: str = ""


class ReplayChanged(Data, kw_only=True):
    """How a replay stands."""

    replay_state: Json | None = None


class ErrorRaised(Data, kw_only=True):
    """Something went wrong, in words for the person."""

    message: str
    code: str | None = None
    detail: Any = None
    run_id: str | None = None


class NoticeGiven(Data, kw_only=True):
    """A word of the server's beside the talk."""

    message: str
    info: Json = field(default_factory=dict)


class SignalSent(Data, kw_only=True):
    """Told to clients and of no consequence for the session: files that changed, a task that goes
    on."""

    event: str
    payload: Json = field(default_factory=dict)


class Imported(Data, kw_only=True):
    """The session begins with an Open-Token document: what stands around its events."""

    conversation: Json = field(default_factory=dict)
    participants: list[Json] = field(default_factory=list)
    exported_at: str | None = None
    integrity: Json | None = None


class EventKept(OnTurn, kw_only=True):
    """One event of that document as it is; as far as turns can show it, it is a block, a call or a
    result of one."""

    event: Json
    turn_id: str = ""
    anchor: str | UnsetType | None = UNSET
    tool_call_id: str | None = None
    block_index: int | None = None


SHAPES: dict[str, type[Data]] = {
    "session.created": SessionCreated,
    "session.changed": SessionChanged,
    "run.started": RunStarted,
    "run.ended": RunEnded,
    "message.queued": MessageQueued,
    "message.taken": MessageTaken,
    "checkpoint.made": CheckpointMade,
    "branch.moved": BranchMoved,
    "turn.opened": TurnOpened,
    "turn.status": TurnStatusSet,
    "turn.ended": TurnEnded,
    "text.delta": Delta,
    "thinking.delta": Delta,
    "block.added": BlockAdded,
    "tool.called": ToolCalled,
    "tool.arguments": ToolArguments,
    "tool.status": ToolStatusSet,
    "tool.result": ToolResulted,
    "question.asked": QuestionAsked,
    "question.answered": QuestionAnswered,
    "mode.changed": ModeChanged,
    "memory.recalled": MemoryRecalled,
    "usage.counted": UsageCounted,
    "compacted": Compacted,
    "replay.changed": ReplayChanged,
    "error.raised": ErrorRaised,
    "notice.given": NoticeGiven,
    "signal.sent": SignalSent,
    "imported": Imported,
    "event.kept": EventKept,
}
"""Every kind of entry, and the shape of its data."""

Step = tuple[str, Json]
"""What is to be appended: a kind and its data."""

_GROWING = {"text.delta": "text", "thinking.delta": "text", "tool.arguments": "delta"}


def shaped(kind: str, data: Json) -> Data:
    """The data of an entry in the shape of its kind; LogFault when it has not that shape."""
    shape = SHAPES.get(kind)
    if shape is None:
        raise LogFault("an entry of a kind that is not known")
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as fault:
        raise LogFault(
            f"an entry {kind} has another shape than its kind: {_place(fault)}"
        ) from None


def _place(fault: msgspec.ValidationError) -> str:
    """Where the fault is, without what stands there."""
    _, _, place = str(fault).rpartition(" - at ")
    return place if place.startswith("`$") else "at the top"


def flat(shape: Data) -> Json:
    """The data of an entry as it is written down."""
    made: Json = msgspec.to_builtins(shape)
    return made


def entry_of(value: Any) -> Entry:
    """A row of a log from its JSON value; LogFault when it is none."""
    try:
        return msgspec.convert(value, Entry)
    except msgspec.ValidationError as fault:
        raise LogFault(f"this is no entry: {_place(fault)}") from None


def coalesced(steps: list[Step]) -> list[Step]:
    """The same steps with neighbouring pieces of one block, or of one call's arguments, put
    together."""
    made: list[Step] = []
    run: list[str] = []
    for kind, data in steps:
        name = _GROWING.get(kind)
        if name and made and _goes_on(made[-1], kind, data, name):
            run.append(data[name])
            continue
        _close(made, run)
        run = [data[name]] if name else []
        made.append((kind, data))
    _close(made, run)
    return made


def _goes_on(last: Step, kind: str, data: Json, name: str) -> bool:
    places = ("turn_id", "tool_call_id", "block_index")
    return last[0] == kind and all(last[1].get(place) == data.get(place) for place in places)


def _close(made: list[Step], run: list[str]) -> None:
    if len(run) > 1:
        kind, data = made[-1]
        made[-1] = (kind, {**data, _GROWING[kind]: "".join(run)})
