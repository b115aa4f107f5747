"""The append-only event log of a session: its entries, the kinds of events, and their data.

The kinds are stored and never change; the names of the data types are those of this program.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from open_token.model.session_types import ToolStatus, Trigger, TurnStatus

Json = dict[str, Any]


class LogError(ValueError):
    """An entry that does not fit the log: unknown kind, invalid data, or an unknown turn."""


class LogEntry(Struct, frozen=True):
    """One row of the log.

    `seq` counts from 1 in each session and is the stream sequence on the wire.
    """

    session_id: str
    seq: int
    at: str
    kind: str
    data: Json


class EventData(Struct, kw_only=True, omit_defaults=True):
    """The data of a log event."""


class TurnEventData(EventData, kw_only=True):
    """An event of a turn; the log fills in the loop and the number of the patch."""

    turn_id: str
    loop_id: str = ""
    patch: int = 0


class SessionCreated(EventData, kw_only=True):
    """The first entry: the known fields of a Session; unknown keys are preserved."""

    session: Json


class SessionChanged(EventData, kw_only=True):
    """Changed fields of the session, such as its title (`intent`) or model."""

    changes: Json


class AgentChanged(EventData, kw_only=True):
    """The profile of the agent and its settings from now on; see `AgentSettings`."""

    profile: Json | None = None
    """Id and name of the profile that the settings were taken from."""
    settings: Json = field(default_factory=dict)


class RunStarted(EventData, kw_only=True):
    """The agent starts to work."""

    run_id: str
    info: Json = field(default_factory=dict)


class RunEnded(EventData, kw_only=True):
    """The agent stopped; the log fills in the status of the session."""

    run_id: str
    status: Literal["completed", "failed", "interrupted"] = "completed"
    finish_reason: str | None = None
    output: Any = None
    schema: Json | None = None
    error: str | None = None
    duration_ms: int | None = None
    config_snapshot: Json | None = None
    session_status: str = ""


class MessageQueued(EventData, kw_only=True):
    """A message of the user that arrived during a run and waits for its turn."""

    message_id: str
    message: Json


class MessageDequeued(EventData, kw_only=True):
    """A queued message is processed now, or was withdrawn."""

    message_id: str


class CheckpointCreated(EventData, kw_only=True):
    """The point before a user turn; the log fills in the node before it."""

    checkpoint_id: str
    turn_id: str | None = None
    label: str | None = None
    parent_id: str | UnsetType | None = UNSET


class BranchMoved(EventData, kw_only=True):
    """The session continues after another node (None: the beginning); nothing is deleted."""

    head: str | None
    reason: str
    checkpoint_id: str | None = None
    from_step: int | None = None
    quotes: list[Any] = field(default_factory=list)
    deprecated: list[str] = field(default_factory=list)


class TurnOpened(EventData, kw_only=True):
    """A turn begins: the known fields of a TurnProjection.

    The log fills in id, sequence, start and parent.
    """

    turn: Json
    parent_id: str | UnsetType | None = UNSET
    client_message_id: str | None = None
    imported: bool = False
    """The turn shows events of an imported document, which are stored as well."""


class TurnEnded(EventData, kw_only=True):
    """A turn ended; a paused one waits for an answer."""

    turn_id: str
    status: TurnStatus = "completed"
    usage: dict[str, int] | None = None
    duration_ms: int | None = None
    context_window: int | None = None
    failure_reason: str | None = None


class TurnStatusChanged(TurnEventData, kw_only=True):
    """A turn is paused, failed or interrupted; `turn.ended` follows."""

    status: TurnStatus
    failure_reason: str | None = None


class TurnRetried(TurnEventData, kw_only=True):
    """The model call of a turn failed and is repeated: what it streamed moves to the attempts.

    The log fills in the blocks that remain, and all attempts so far.
    """

    failure_reason: str
    code: str | None = None
    blocks: list[Json] = field(default_factory=list)
    attempts: list[Json] = field(default_factory=list)


class TextDelta(TurnEventData, kw_only=True):
    """More text.

    Without an index it continues the last block if that has the same type, or begins a new one.
    """

    text: str
    block_index: int | None = None


class BlockAdded(TurnEventData, kw_only=True):
    """A whole block; text may still be added to it."""

    block: Json
    block_index: int | None = None


class ToolCalled(TurnEventData, kw_only=True):
    """A tool call, and the block of type tool_use that shows where it was made."""

    call: Json
    block_index: int | None = None


class CallEventData(TurnEventData, kw_only=True):
    """An event of a tool call."""

    tool_call_id: str


class ToolArgumentsDelta(CallEventData, kw_only=True):
    """More of the arguments of a call."""

    delta: str


class ToolStatusChanged(CallEventData, kw_only=True):
    """The status of a call changed without a result, or the question it waits for."""

    status: ToolStatus
    pending_question_ref: Json | UnsetType | None = UNSET


class ToolReturned(CallEventData, kw_only=True):
    """The result of a tool call."""

    result: Any = None
    status: ToolStatus = "done"
    duration_ms: int | None = None


class QuestionAsked(CallEventData, kw_only=True):
    """A call waits for the user: for an answer, for an approval, or for a result of the client."""

    kind: Literal["question", "approval", "client_tool"] = "question"
    questions: list[Json] = field(default_factory=list)
    source_loop: str | None = None

    def build_reference(self) -> Json | None:
        """Return what a call that waits for an approval or a result refers to: itself."""
        if self.kind == "question":
            return None
        description = self.questions[0].get("question") if self.questions else None
        return {
            "child_loop_name": self.loop_id,
            "child_tool_call_id": self.tool_call_id,
            "description": description,
            "kind": self.kind,
            "questions": self.questions,
        }


class QuestionAnswered(CallEventData, kw_only=True):
    """The user answered, or the question was withdrawn; the call goes on.

    The log fills in the kind of the question."""

    kind: str = "question"
    answer: Json = field(default_factory=dict)


class ModeChanged(TurnEventData, kw_only=True):
    """The agent switches between planning and executing; with a turn, a block shows it."""

    turn_id: str = ""
    to: str
    before: str | None = field(default=None, name="from")
    block_index: int | None = None


class MemoryRecalled(TurnEventData, kw_only=True):
    """The memories that the model received for a turn."""

    refs: list[Json] = field(default_factory=list)


class UsageCounted(TurnEventData, kw_only=True):
    """The usage of a turn so far; the log fills in its status, which the patch repeats."""

    usage: dict[str, int] | None = None
    duration_ms: int | None = None
    context_window: int | None = None
    finish_reason: str | None = None
    """Why the model stopped: `stop`, `tool_call`, `length`, `content_filter` or `error`."""
    status: str = ""


class Compacted(TurnEventData, kw_only=True):
    """The result of a compaction turn; the log fills in its status, which the patch repeats."""

    compaction_id: str | None = None
    summary_preview: str | None = None
    summary_full: str | None = None
    archived_count: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    saved_ratio: float | None = None
    trigger: Trigger | None = None
    status: str = ""


class ReplayChanged(EventData, kw_only=True):
    """The progress of a replay."""

    replay_state: Json | None = None


class ErrorRaised(EventData, kw_only=True):
    """An error, described for the user."""

    message: str
    code: str | None = None
    detail: Any = None
    run_id: str | None = None


class NoticeSent(EventData, kw_only=True):
    """A notification of the server."""

    message: str
    info: Json = field(default_factory=dict)


class SignalSent(EventData, kw_only=True):
    """An event that is only sent to clients, such as changed files or a running task."""

    event: str
    payload: Json = field(default_factory=dict)


class DocumentImported(EventData, kw_only=True):
    """The session begins with an Open-Token document: everything but its events."""

    conversation: Json = field(default_factory=dict)
    participants: list[Json] = field(default_factory=list)
    exported_at: str | None = None
    integrity: Json | None = None


class EventImported(TurnEventData, kw_only=True):
    """One event of the document, unchanged; turns show it as far as they can."""

    event: Json
    turn_id: str = ""
    anchor: str | UnsetType | None = UNSET
    tool_call_id: str | None = None
    block_index: int | None = None


LOG_EVENT_TYPES: dict[str, type[EventData]] = {
    "session.created": SessionCreated,
    "session.changed": SessionChanged,
    "agent.changed": AgentChanged,
    "run.started": RunStarted,
    "run.ended": RunEnded,
    "message.queued": MessageQueued,
    "message.taken": MessageDequeued,
    "checkpoint.made": CheckpointCreated,
    "branch.moved": BranchMoved,
    "turn.opened": TurnOpened,
    "turn.status": TurnStatusChanged,
    "turn.ended": TurnEnded,
    "turn.retried": TurnRetried,
    "text.delta": TextDelta,
    "thinking.delta": TextDelta,
    "block.added": BlockAdded,
    "tool.called": ToolCalled,
    "tool.arguments": ToolArgumentsDelta,
    "tool.status": ToolStatusChanged,
    "tool.result": ToolReturned,
    "question.asked": QuestionAsked,
    "question.answered": QuestionAnswered,
    "mode.changed": ModeChanged,
    "memory.recalled": MemoryRecalled,
    "usage.counted": UsageCounted,
    "compacted": Compacted,
    "replay.changed": ReplayChanged,
    "error.raised": ErrorRaised,
    "notice.given": NoticeSent,
    "signal.sent": SignalSent,
    "imported": DocumentImported,
    "event.kept": EventImported,
}
"""Every kind of event, and the type of its data."""

NewEvent = tuple[str, Json]
"""An event to append: its kind and its data."""

# Events whose neighbours are merged, and the field that is joined.
_DELTA_FIELDS = {"text.delta": "text", "thinking.delta": "text", "tool.arguments": "delta"}


def parse_event_data(kind: str, data: Json) -> EventData:
    """Parse the data of an entry; raise LogError when it does not fit its kind."""
    event_type = LOG_EVENT_TYPES.get(kind)
    if event_type is None:
        raise LogError("entry has an unknown kind")
    try:
        return msgspec.convert(data, event_type)
    except msgspec.ValidationError as error:
        raise LogError(f"entry {kind} has invalid data: {_get_path(error)}") from None


def _get_path(error: msgspec.ValidationError) -> str:
    """Return where a validation error is, without the value found there."""
    _, _, path = str(error).rpartition(" - at ")
    if path.startswith("`$"):
        return path
    return "at the top"


def dump_event_data(event: EventData) -> Json:
    """Return the data of an entry as it is stored."""
    data: Json = msgspec.to_builtins(event)
    return data


def parse_entry(value: Any) -> LogEntry:
    """Parse a row of a log from its JSON value; raise LogError when it is none."""
    try:
        return msgspec.convert(value, LogEntry)
    except msgspec.ValidationError as error:
        raise LogError(f"not a log entry: {_get_path(error)}") from None


def merge_deltas(events: list[NewEvent]) -> list[NewEvent]:
    """Join neighbouring deltas of the same block or of the same call's arguments."""
    merged: list[NewEvent] = []
    pieces: list[str] = []
    for kind, data in events:
        name = _DELTA_FIELDS.get(kind)
        if name and merged and _has_same_target(merged[-1], kind, data):
            pieces.append(data[name])
            continue
        _join_last(merged, pieces)
        pieces = [data[name]] if name else []
        merged.append((kind, data))
    _join_last(merged, pieces)
    return merged


def _has_same_target(last: NewEvent, kind: str, data: Json) -> bool:
    last_kind, last_data = last
    if last_kind != kind:
        return False
    names = ("turn_id", "tool_call_id", "block_index")
    return all(last_data.get(name) == data.get(name) for name in names)


def _join_last(merged: list[NewEvent], pieces: list[str]) -> None:
    if len(pieces) > 1:
        kind, data = merged[-1]
        merged[-1] = (kind, {**data, _DELTA_FIELDS[kind]: "".join(pieces)})
