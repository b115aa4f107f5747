"""Project the log of a session into its current state.

`SessionState` is a pure fold: folding a whole log at once and folding it entry by entry give
the same state. Each handler below applies one kind of log event. Handlers also fill in what
only the log knows (patch numbers, block positions, parents), so that an entry that has been
written can be sent to clients without looking anything up.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from open_token.jsontools.objects import omit_keys
from open_token.model.log_events import (
    AgentChanged,
    BlockAdded,
    BranchMoved,
    CheckpointCreated,
    Compacted,
    DocumentImported,
    ErrorRaised,
    EventData,
    EventImported,
    Json,
    LogEntry,
    LogError,
    MemoryRecalled,
    MessageDequeued,
    MessageQueued,
    ModeChanged,
    QuestionAnswered,
    QuestionAsked,
    ReplayChanged,
    RunEnded,
    RunStarted,
    SessionChanged,
    SessionCreated,
    TextDelta,
    ToolArgumentsDelta,
    ToolCalled,
    ToolReturned,
    ToolStatusChanged,
    TurnEnded,
    TurnEventData,
    TurnOpened,
    TurnRetried,
    TurnStatusChanged,
    UsageCounted,
    dump_event_data,
    parse_event_data,
)
from open_token.model.open_struct import T
from open_token.model.session_types import (
    Attempt,
    ContentBlock,
    MemoryRef,
    PendingQuestionRef,
    ReplayState,
    Session,
    ToolCallProjection,
    TurnProjection,
    from_builtins,
    to_builtins,
)
from open_token.session.document_events import to_block, to_tool_call, to_tool_result
from open_token.session.turn import BlockBuffer, CallBuffer, Turn

COMPACTION_FIELDS = (
    "compaction_id",
    "summary_preview",
    "summary_full",
    "archived_count",
    "tokens_before",
    "tokens_after",
    "saved_ratio",
    "trigger",
)
_USAGE_FIELDS = ("usage", "duration_ms", "context_window", "finish_reason")
_ANSWER_BLOCKS = ("text", "thinking", "tool_use")
"""The blocks that a model streams; others of its turn come from the server."""


@dataclass(frozen=True, slots=True)
class ImportedEvent:
    """An event of the imported document, and the node of the tree that it belongs to."""

    anchor: str | None
    event: Json


@dataclass(frozen=True, slots=True)
class Annotation:
    """Something that happened between turns and is exported as an annotation."""

    anchor: str | None
    """The node after which it happened."""
    turns: int
    """How many turns there were by then."""
    at: str
    data: Json


@dataclass(frozen=True, slots=True)
class CheckpointNode:
    """A checkpoint: the node before it (None: the beginning) and the turn that follows it."""

    checkpoint_id: str
    turn_id: str | None
    before: str | None
    label: str | None
    created_at: str


@dataclass
class SessionState:
    """The state that a log has led to so far.

    `add` creates the next entry, `apply` takes one that has been written; both lead to the same
    state.
    """

    session_id: str
    seq: int = 0
    """The number of the last entry; it is the stream sequence of the session."""
    session: Session = field(init=False)
    mode: str = "executing"
    agent: AgentChanged = field(default_factory=AgentChanged)
    """The profile and the settings of the agent."""
    run: RunStarted | None = None
    """The run in progress."""
    queue: dict[str, Json] = field(default_factory=dict)
    """Messages that the user sent meanwhile, by message id, oldest first."""
    sent: dict[str, str] = field(default_factory=dict)
    """The turn of each client message id: a message that is sent twice is one message."""
    turns: dict[str, Turn] = field(default_factory=dict)
    """Every turn of the tree by turn id, in the order in which they were opened."""
    nodes: dict[str, Turn] = field(default_factory=dict)
    """The same turns by entry id."""
    path: list[Turn] = field(default_factory=list)
    """The turns of the current branch."""
    checkpoints: dict[str, CheckpointNode] = field(default_factory=dict)
    """The checkpoints by id, oldest first."""
    callers: dict[str, str] = field(default_factory=dict)
    """The turn that made each tool call, by call id."""
    questions: dict[str, QuestionAsked] = field(default_factory=dict)
    """The open questions, by the id of the call that waits for the answer."""
    approved: set[str] = field(default_factory=set)
    """The calls that the user has approved."""
    approved_tools: set[str] = field(default_factory=set)
    """The tools that the user has approved until the settings change."""
    deprecated: tuple[str, ...] = ()
    """For the branch that is about to begin: entries hidden from the model."""
    annotations: list[Annotation] = field(default_factory=list)
    document: DocumentImported | None = None
    imported_events: list[ImportedEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = Session(id=self.session_id)

    @property
    def head(self) -> str | None:
        """The entry id of the last turn of the current branch."""
        if self.path:
            return self.path[-1].facts.id
        return None

    def apply(self, entry: LogEntry) -> EventData:
        """Apply the next entry of the log and return its data.

        Raise LogError, and change nothing, when the entry does not fit.
        """
        if entry.session_id != self.session_id or entry.seq <= self.seq:
            raise LogError("entry belongs to another session or is out of order")
        event = parse_event_data(entry.kind, entry.data)
        self._handle(event, entry.kind, entry.at)
        self.seq = entry.seq
        return event

    def add(self, kind: str, data: Json, at: str) -> LogEntry:
        """Create and apply the next entry: numbered, with the values that the log fills in.

        Raise LogError when it does not fit.
        """
        event = parse_event_data(kind, data)
        self._handle(event, kind, at)
        self.seq += 1
        return LogEntry(self.session_id, self.seq, at, kind, dump_event_data(event))

    def _handle(self, event: EventData, kind: str, at: str) -> None:
        EVENT_HANDLERS[kind](self, event, at)
        self.session.updated_at = at

    def turn(self, turn_id: str) -> TurnProjection:
        """Return a snapshot of a turn."""
        return self.turns[turn_id].snapshot()

    def branch(self) -> list[TurnProjection]:
        """Return snapshots of the turns of the current branch."""
        return [turn.snapshot() for turn in self.path]

    def get_turn(self, event: TurnEventData) -> Turn:
        """Return the turn that an event is about."""
        turn = self.turns.get(event.turn_id)
        if turn is None:
            raise LogError("entry refers to a turn that is not in the log")
        return turn

    def number_patch(self, turn: Turn, event: TurnEventData) -> None:
        """Count one more patch of a turn and write its number into the event."""
        turn.patches = event.patch or turn.patches + 1
        event.patch = turn.patches
        event.loop_id = turn.facts.loop_id

    def path_to(self, head: str | None) -> list[Turn]:
        """Return the turns from the beginning to a node."""
        path: list[Turn] = []
        while head is not None:
            turn = self.nodes.get(head)
            if turn is None:
                raise LogError("node is not in the log")
            path.append(turn)
            head = turn.parent_id
        path.reverse()
        return path

    def annotate(self, at: str, data: Json, *, anchor: str | None) -> None:
        """Record something that happened after the node `anchor`."""
        self.annotations.append(Annotation(anchor, len(self.turns), at, data))

    def snapshot(self) -> Json:
        """Return the whole state as JSON values, for comparison."""
        turns = []
        for turn in self.turns.values():
            position = {
                "patches": turn.patches,
                "parent_id": turn.parent_id,
                "checkpoint_id": turn.checkpoint_id,
                "deprecated": list(turn.deprecated),
            }
            turns.append({**to_builtins(turn.snapshot()), **position})
        return {
            "session": to_builtins(self.session),
            "seq": self.seq,
            "mode": self.mode,
            "agent": dump_event_data(self.agent),
            "approved": sorted(self.approved),
            "approved_tools": sorted(self.approved_tools),
            "run": dump_event_data(self.run) if self.run else None,
            "queue": self.queue,
            "sent": self.sent,
            "turns": turns,
            "branch": [turn.facts.id for turn in self.path],
            "checkpoints": [
                (node.checkpoint_id, node.turn_id, node.before)
                for node in self.checkpoints.values()
            ],
            "callers": self.callers,
            "questions": {
                call_id: dump_event_data(question) for call_id, question in self.questions.items()
            },
            "annotations": [
                (item.anchor, item.turns, item.at, item.data) for item in self.annotations
            ],
            "document": dump_event_data(self.document) if self.document else None,
            "imported_events": [
                {"anchor": item.anchor, "event": item.event} for item in self.imported_events
            ],
        }


def fold_log(entries: Iterable[LogEntry]) -> SessionState:
    """Fold a whole log; raise LogError when it is empty or an entry does not fit."""
    rest: Iterator[LogEntry] = iter(entries)
    first = next(rest, None)
    if first is None:
        raise LogError("log is empty")
    state = SessionState(first.session_id)
    state.apply(first)
    for entry in rest:
        state.apply(entry)
    return state


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return from_builtins(value, kind)
    except msgspec.ValidationError:
        raise LogError(f"entry holds no valid {kind.__name__}") from None


# The session and its runs


def _apply_session_created(state: SessionState, event: SessionCreated, at: str) -> None:
    if state.seq:
        raise LogError("session exists already")
    values = {"created_at": at, **event.session, "id": state.session_id}
    state.session = _convert(values, Session)


def _apply_session_changed(state: SessionState, event: SessionChanged, at: str) -> None:
    values = {**to_builtins(state.session), **event.changes, "id": state.session_id}
    state.session = _convert(values, Session)


def _apply_agent_changed(state: SessionState, event: AgentChanged, at: str) -> None:
    state.agent = event
    state.approved_tools.clear()
    data = {"kind": "agent_settings", "profile": event.profile, "settings": event.settings}
    state.annotate(at, data, anchor=state.head)


def _apply_run_started(state: SessionState, event: RunStarted, at: str) -> None:
    state.run = event
    settings = event.info.get("settings")
    if settings:
        # The settings of one message; those of the session are annotated when they change.
        data = {"kind": "run_settings", "run_id": event.run_id, "settings": settings}
        state.annotate(at, data, anchor=state.head)
    state.session.status = "running"


def _apply_run_ended(state: SessionState, event: RunEnded, at: str) -> None:
    state.run = None
    if event.status == "completed" and _has_open_question(state):
        state.session.status = "waiting_for_input"
    else:
        state.session.status = event.status
    event.session_status = state.session.status
    is_plain = event.status == "completed" and event.finish_reason is None
    if not is_plain or event.schema is not None:
        names = ("status", "finish_reason", "output", "error", "duration_ms")
        state.annotate(at, {"kind": "run", **_known_fields(event, names)}, anchor=state.head)


def _known_fields(event: EventData, names: Iterable[str]) -> Json:
    """Return the named fields of an event that are not None."""
    known = {}
    for name in names:
        value = getattr(event, name)
        if value is not None:
            known[name] = value
    return known


def _has_open_question(state: SessionState) -> bool:
    """Return whether a question of the current branch waits for its answer."""
    if not state.questions:
        return False
    active = {turn.facts.turn_id for turn in state.path}
    return any(question.turn_id in active for question in state.questions.values())


def _apply_message_queued(state: SessionState, event: MessageQueued, at: str) -> None:
    state.queue[event.message_id] = event.message


def _apply_message_dequeued(state: SessionState, event: MessageDequeued, at: str) -> None:
    if state.queue.pop(event.message_id, None) is None:
        raise LogError("message is not in the queue")


def _apply_replay_changed(state: SessionState, event: ReplayChanged, at: str) -> None:
    replay_state = event.replay_state
    if replay_state is None:
        state.session.replay_state = None
        return
    replay = _convert(replay_state, ReplayState)
    state.session.replay_state = replay
    # A recording without runs, such as an imported document, has no other events that set these.
    if replay.status == "finished" and state.session.status in ("created", "running"):
        state.session.status = "completed"
    elif replay.status == "mismatch":
        state.session.status = "waiting_for_input"
    elif replay.status in ("playing", "autonomous") and state.run is None:
        state.session.status = "running"


def _apply_error_raised(state: SessionState, event: ErrorRaised, at: str) -> None:
    fields = _known_fields(event, ("message", "code", "detail"))
    state.annotate(at, {"kind": "error", **fields}, anchor=state.head)


# The tree of turns


def _apply_checkpoint_created(state: SessionState, event: CheckpointCreated, at: str) -> None:
    if event.checkpoint_id in state.checkpoints:
        raise LogError("checkpoint exists already")
    event.parent_id = state.head
    state.checkpoints[event.checkpoint_id] = CheckpointNode(
        event.checkpoint_id, event.turn_id, state.head, event.label, at
    )


def _apply_branch_moved(state: SessionState, event: BranchMoved, at: str) -> None:
    path = state.path_to(event.head)
    # Branches of an imported document have annotations of their own among its events.
    if event.reason != "imported":
        data = omit_keys(dump_event_data(event), "head")
        shared = {turn.facts.id for turn in path}
        data["left"] = sum(turn.facts.id not in shared for turn in state.path)
        state.annotate(at, {"kind": "branch_moved", **data}, anchor=event.head)
    state.path = path
    state.deprecated = tuple(event.deprecated)
    if state.run is None and _has_open_question(state):
        state.session.status = "waiting_for_input"
    elif state.session.status == "waiting_for_input":
        state.session.status = "completed"


def _apply_turn_opened(state: SessionState, event: TurnOpened, at: str) -> None:
    turn_id = event.turn.get("turn_id")
    defaults: Json = {
        "id": f"entry_{str(turn_id).removeprefix('turn_')}",
        "sequence": len(state.turns),
        "started_at": at,
    }
    values = defaults | event.turn
    facts = _convert(values, TurnProjection)
    if facts.turn_id in state.turns or facts.id in state.nodes:
        raise LogError("turn exists already")
    if event.parent_id is not UNSET and event.parent_id != state.head:
        raise LogError("turn does not follow the head of the branch")
    # The fold completes the entry: what is derived here is sent to clients along with it.
    event.parent_id = state.head
    event.turn = values
    turn = Turn(facts, state.head, at, deprecated=state.deprecated, imported=event.imported)
    # Blocks and calls grow with every delta. They live in buffers, and are put back into the facts
    # only when somebody asks for a snapshot.
    turn.blocks = [BlockBuffer(block) for block in facts.blocks]
    turn.calls = {call.id: CallBuffer(call) for call in facts.tool_calls}
    facts.blocks = []
    facts.tool_calls = []
    state.deprecated = ()
    state.turns[facts.turn_id] = turn
    state.nodes[facts.id] = turn
    state.callers |= dict.fromkeys(turn.calls, facts.turn_id)
    # A checkpoint is made just before the turn that it restores to.
    newest = next(reversed(state.checkpoints.values()), None)
    if newest is not None and newest.turn_id == facts.turn_id:
        turn.checkpoint_id = newest.checkpoint_id
    state.path.append(turn)
    if event.client_message_id:
        state.sent[event.client_message_id] = facts.turn_id


def _apply_turn_status(state: SessionState, event: TurnStatusChanged, at: str) -> None:
    turn = state.get_turn(event)
    _set_turn_status(turn, event)
    state.number_patch(turn, event)


def _apply_turn_ended(state: SessionState, event: TurnEnded, at: str) -> None:
    turn = state.turns.get(event.turn_id)
    if turn is None:
        raise LogError("turn that ends is not in the log")
    _set_usage(turn, event)
    _set_turn_status(turn, event)


def _set_turn_status(turn: Turn, event: TurnStatusChanged | TurnEnded) -> None:
    turn.facts.status = event.status
    if event.failure_reason is not None:
        turn.facts.failure_reason = event.failure_reason


def _apply_turn_retried(state: SessionState, event: TurnRetried, at: str) -> None:
    turn = state.get_turn(event)
    if turn.facts.status != "streaming":
        raise LogError("another attempt of a turn that has ended")
    blocks = turn.snapshot().blocks
    streamed = [block for block in blocks if block.type in _ANSWER_BLOCKS]
    kept = [block for block in blocks if block.type not in _ANSWER_BLOCKS]
    earlier = turn.facts.attempts
    attempts = [] if earlier is UNSET else list(earlier)
    attempts.append(
        Attempt(failed_at=at, failure_reason=event.failure_reason, code=event.code, blocks=streamed)
    )
    for call_id in turn.calls:
        state.callers.pop(call_id, None)
    turn.blocks = [BlockBuffer(block) for block in kept]
    turn.calls = {}
    turn.facts.attempts = attempts
    event.blocks = to_builtins(kept)
    event.attempts = to_builtins(attempts)
    state.number_patch(turn, event)


def _set_usage(turn: Turn, event: TurnEnded | UsageCounted) -> None:
    for name in _USAGE_FIELDS:
        value = getattr(event, name, None)
        if value is not None:
            setattr(turn.facts, name, value)


# The content of a turn


def _apply_text_delta(state: SessionState, event: TextDelta, at: str) -> None:
    _add_text(state, event, "text")


def _apply_thinking_delta(state: SessionState, event: TextDelta, at: str) -> None:
    _add_text(state, event, "thinking")


def _add_text(state: SessionState, event: TextDelta, block_type: str) -> None:
    turn = state.get_turn(event)
    if turn.facts.status != "streaming":
        raise LogError("text for a turn that has ended")
    event.block_index = turn.add_text(block_type, event.text, event.block_index)
    state.number_patch(turn, event)


def _apply_block_added(state: SessionState, event: BlockAdded, at: str) -> None:
    turn = state.get_turn(event)
    block = _convert(event.block, ContentBlock)
    event.block_index = turn.add_block(block, event.block_index)
    state.number_patch(turn, event)


def _apply_tool_called(state: SessionState, event: ToolCalled, at: str) -> None:
    turn = state.get_turn(event)
    call = _convert(event.call, ToolCallProjection)
    event.block_index = turn.add_call(call, event.block_index)
    state.callers[call.id] = event.turn_id
    state.number_patch(turn, event)


def _apply_tool_arguments(state: SessionState, event: ToolArgumentsDelta, at: str) -> None:
    turn = state.get_turn(event)
    buffer = turn.get_call(event.tool_call_id)
    if buffer.call.status != "pending":
        raise LogError("arguments for a call that has ended")
    buffer.pieces.append(event.delta)
    state.number_patch(turn, event)


def _apply_tool_status(state: SessionState, event: ToolStatusChanged, at: str) -> None:
    turn = state.get_turn(event)
    changes: Json = {"status": event.status}
    reference = event.pending_question_ref
    if reference is None:
        changes["pending_question_ref"] = None
    elif reference is not UNSET:
        changes["pending_question_ref"] = _convert(reference, PendingQuestionRef)
    turn.change_call(event.tool_call_id, **changes)
    if event.status != "awaiting_answer":
        state.questions.pop(event.tool_call_id, None)
    state.number_patch(turn, event)


def _apply_tool_returned(state: SessionState, event: ToolReturned, at: str) -> None:
    turn = state.get_turn(event)
    changes: Json = {"result": event.result, "status": event.status}
    if event.duration_ms is not None:
        changes["duration_ms"] = event.duration_ms
    turn.change_call(event.tool_call_id, **changes)
    turn.calls[event.tool_call_id].ended_at = at
    state.questions.pop(event.tool_call_id, None)
    state.number_patch(turn, event)


def _apply_question_asked(state: SessionState, event: QuestionAsked, at: str) -> None:
    turn = state.get_turn(event)
    event.loop_id = turn.facts.loop_id
    changes: Json = {"status": "awaiting_answer"}
    reference = event.build_reference()
    if reference is not None:
        changes["pending_question_ref"] = _convert(reference, PendingQuestionRef)
    turn.change_call(event.tool_call_id, **changes)
    state.questions[event.tool_call_id] = event
    state.number_patch(turn, event)


def _apply_question_answered(state: SessionState, event: QuestionAnswered, at: str) -> None:
    question = state.questions.get(event.tool_call_id)
    if question is None:
        raise LogError("answer to a question that is not open")
    turn = state.get_turn(event)
    event.kind = question.kind
    changes: Json = {"status": "pending"}
    if question.kind != "question":
        changes["pending_question_ref"] = None
    turn.change_call(event.tool_call_id, **changes)
    if question.kind == "approval" and event.answer.get("decision") == "allow":
        state.approved.add(event.tool_call_id)
        if event.answer.get("scope") == "session":
            state.approved_tools.add(turn.get_call(event.tool_call_id).call.tool_name)
    del state.questions[event.tool_call_id]
    state.number_patch(turn, event)


def _apply_mode_changed(state: SessionState, event: ModeChanged, at: str) -> None:
    turn = state.get_turn(event) if event.turn_id else None
    if event.before is None:
        event.before = state.mode
    if turn is not None:
        block = ContentBlock(type="mode_change", content={"from": event.before, "to": event.to})
        event.block_index = turn.add_block(block, event.block_index)
        state.number_patch(turn, event)
    state.mode = event.to


def _apply_memory_recalled(state: SessionState, event: MemoryRecalled, at: str) -> None:
    turn = state.get_turn(event)
    turn.facts.memory_refs = [_convert(ref, MemoryRef) for ref in event.refs]
    event.loop_id = turn.facts.loop_id


def _apply_usage_counted(state: SessionState, event: UsageCounted, at: str) -> None:
    turn = state.get_turn(event)
    _set_usage(turn, event)
    event.status = turn.facts.status
    state.number_patch(turn, event)


def _apply_compacted(state: SessionState, event: Compacted, at: str) -> None:
    turn = state.get_turn(event)
    for name in COMPACTION_FIELDS:
        setattr(turn.facts, name, getattr(event, name))
    turn.facts.kind = "compaction"
    event.status = turn.facts.status
    state.number_patch(turn, event)


# Imported documents


def _apply_document_imported(state: SessionState, event: DocumentImported, at: str) -> None:
    if state.document is not None or state.turns:
        raise LogError("import into a session that has begun")
    state.document = event


def _apply_event_imported(state: SessionState, event: EventImported, at: str) -> None:
    if event.turn_id:
        _show_imported(state, event)
    if event.anchor is UNSET:
        if event.turn_id:
            event.anchor = state.turns[event.turn_id].facts.id
        else:
            event.anchor = state.head
    state.imported_events.append(ImportedEvent(event.anchor, event.event))


def _show_imported(state: SessionState, event: EventImported) -> None:
    """Show an event of the document in its turn, as far as a turn can represent it."""
    turn = state.get_turn(event)
    call_id = event.tool_call_id
    call = to_tool_call(event.event, call_id) if call_id else None
    result = to_tool_result(event.event) if call_id else None
    block = to_block(event.event)
    if call_id and call is not None:
        event.block_index = turn.add_call(call, event.block_index)
        state.callers[call_id] = event.turn_id
    elif call_id and result is not None:
        turn.change_call(call_id, result=result[0], status=result[1])
    elif block is not None:
        event.block_index = turn.add_block(block, event.block_index)
    else:
        event.loop_id = turn.facts.loop_id
        return
    state.number_patch(turn, event)


def _ignore(state: SessionState, event: Any, at: str) -> None:
    """Events that are only sent to clients do not change the state."""


EVENT_HANDLERS: dict[str, Callable[[Any, Any, str], None]] = {
    "session.created": _apply_session_created,
    "session.changed": _apply_session_changed,
    "agent.changed": _apply_agent_changed,
    "run.started": _apply_run_started,
    "run.ended": _apply_run_ended,
    "message.queued": _apply_message_queued,
    "message.taken": _apply_message_dequeued,
    "checkpoint.made": _apply_checkpoint_created,
    "branch.moved": _apply_branch_moved,
    "turn.opened": _apply_turn_opened,
    "turn.status": _apply_turn_status,
    "turn.ended": _apply_turn_ended,
    "turn.retried": _apply_turn_retried,
    "text.delta": _apply_text_delta,
    "thinking.delta": _apply_thinking_delta,
    "block.added": _apply_block_added,
    "tool.called": _apply_tool_called,
    "tool.arguments": _apply_tool_arguments,
    "tool.status": _apply_tool_status,
    "tool.result": _apply_tool_returned,
    "question.asked": _apply_question_asked,
    "question.answered": _apply_question_answered,
    "mode.changed": _apply_mode_changed,
    "memory.recalled": _apply_memory_recalled,
    "usage.counted": _apply_usage_counted,
    "compacted": _apply_compacted,
    "replay.changed": _apply_replay_changed,
    "error.raised": _apply_error_raised,
    "notice.given": _ignore,
    "signal.sent": _ignore,
    "imported": _apply_document_imported,
    "event.kept": _apply_event_imported,
}
