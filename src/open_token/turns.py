"""The core types of the session server, in the spec's own names; keys that the types do not have
survive in `more`."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from open_token._open_types import Open as Open
from open_token._open_types import decode as decode
from open_token._open_types import encode as encode
from open_token._open_types import plain as plain
from open_token._open_types import typed as typed

SessionStatus = Literal[
    "created", "running", "completed", "failed", "interrupted", "waiting_for_input"
]
TurnKind = Literal["message", "compaction"]
TurnRole = Literal["user", "assistant", "system"]
TurnStatus = Literal["streaming", "completed", "paused", "failed", "interrupted"]
Trigger = Literal["auto", "manual", "forced_retry"]
BlockType = Literal[
    "text",
    "thinking",
    "tool_use",
    "tool_result",
    "tool_ui",
    "tool_bridge",
    "system_notification",
    "mode_change",
    "planning_enter",
    "planning_exit",
    "plan_status",
    "ask_user_answer",
]
ToolStatus = Literal["pending", "done", "error", "cancelled", "awaiting_answer"]
PatchType = Literal["add_content", "add_tool_call", "tool_result", "set_status", "set_tool_status"]
Mode = Literal["planning", "executing"]
MemoryType = Literal["feedback", "experience"]
RecordType = Literal["memory", "skill_comment"]
ReplayStatus = Literal["playing", "paused", "autonomous", "finished", "mismatch"]
PlanStatus = Literal["drafting", "ready", "approved", "rejected"]
TaskStatus = Literal["running", "done", "failed", "stopped"]
RunStatus = Literal["completed", "failed", "running"]
Target = Literal["inline", "preview"]
Scope = Literal["full", "read"]

ROOT = "root"
"""The loop that talks with the person."""


class ReplayState(Open):
    """How far a session that plays a recorded one has come."""

    source_session_id: str
    speed: int = 1
    status: ReplayStatus = "playing"
    position: int = 0
    total: int = 0


class Session(Open):
    """A conversation with an agent, and how it is set up."""

    id: str
    intent: str = ""
    status: SessionStatus = "created"
    created_at: str | None = None
    updated_at: str | None = None
    user_id: str | None = None
    solution_id: str | None = None
    biz_role_id: str | None = None
    model: str | None = None
    shared: bool = False
    is_pinned: bool = False
    memory_enabled: bool = True
    is_persistent: bool = False
    replay_state: ReplayState | None = None


class ContentBlock(Open):
    """One element of a turn's content."""

    type: BlockType
    content: Any = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    display_name: str | None = None


class PendingQuestionRef(Open):
    """On a call of a subagent: the question of the subagent's that the person has to answer."""

    child_loop_name: str
    child_tool_call_id: str
    description: str | None = None


class ToolCallProjection(Open):
    """A call of a tool, with its result once there is one."""

    id: str
    tool_name: str
    display_name: str = ""
    arguments: str = ""
    status: ToolStatus = "pending"
    result: Any = None
    duration_ms: int | None = None
    pending_question_ref: PendingQuestionRef | None = None


class MemoryRef(Open):
    """A memory that was given to the model."""

    id: int
    content_preview: str = ""
    skill_name: str | None = None


class TurnProjection(Open):
    """The whole snapshot of one turn; the fields of a compaction are only there when it is one."""

    id: str
    sequence: int
    turn_id: str
    loop_id: str = ROOT
    kind: TurnKind = "message"
    role: TurnRole = "assistant"
    status: TurnStatus = "streaming"
    blocks: list[ContentBlock] = field(default_factory=list)
    tool_calls: list[ToolCallProjection] = field(default_factory=list)
    model: str | None = None
    usage: dict[str, int] | None = None
    duration_ms: int = 0
    started_at: str | None = None
    context_window: int = 0
    memory_refs: list[MemoryRef] | None = None
    parent_fork_tool_call_id: str | None = None
    compaction_id: str | UnsetType | None = UNSET
    summary_preview: str | UnsetType | None = UNSET
    summary_full: str | UnsetType | None = UNSET
    archived_count: int | UnsetType | None = UNSET
    tokens_before: int | UnsetType | None = UNSET
    tokens_after: int | UnsetType | None = UNSET
    saved_ratio: float | UnsetType | None = UNSET
    trigger: Trigger | UnsetType | None = UNSET
    failure_reason: str | UnsetType | None = UNSET


class PatchEnvelope(Open):
    """A change of a turn on its way to a client; `sync` is no change but the whole turn, in
    `data.turn`."""

    session_id: str
    sequence: int
    turn_id: str
    loop_id: str
    patch_type: PatchType | Literal["sync"]
    data: dict[str, Any] = field(default_factory=dict)


class RawEvent(Open):
    """One item of `turn:events`, the dialect whose clients go on from a stream sequence."""

    type: str
    payload: dict[str, Any]
    stream_sequence: int


class Memory(Open):
    """What the agent keeps in mind from one session to another."""

    id: int
    type: MemoryType
    content: Annotated[str, Meta(min_length=1, max_length=500)]
    skill_name: str | None = None
    record_type: RecordType | None = None
    scope: str | None = None
    owner: str | None = None
    topic: str | None = None
    mem0_id: str | None = None
    superseded_by: int | None = None
    write_reason: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    hit_count: int = 0
    last_hit_at: str | None = None
    disabled: bool = False
    source_session: str | None = None


class ApiKey(Open):
    """A key of a user; its plain text is told once, when it is made."""

    id: str
    name: str
    masked: str
    plaintext: str | None = None
    created_at: str | None = None
    last_used_at: str | None = None
    scope: Scope | UnsetType = UNSET


class ScheduledTask(Open):
    """Words that are sent to an agent by the clock."""

    id: str
    title: str
    prompt: str
    cron: str
    timezone: str = "UTC"
    enabled: bool = True
    expires_at: str | None = None
    skip_confirmations: bool = False
    model: str | None = None


class ScheduledTaskRun(Open):
    """One time that a scheduled task ran, or was missed."""

    id: str
    task_id: str
    session_id: str | None = None
    status: RunStatus = "running"
    error: str | None = None
    triggered_at: str | None = None
    finished_at: str | None = None


class Bridge(Open):
    """What a tool has the page around the chat do."""

    action: str
    payload: Any = None


class UiCard(Open):
    """A card that a tool shows: its own HTML, or the address of a page."""

    target: Target = "inline"
    resourceHTML: str | UnsetType | None = UNSET  # noqa: N815  the wire's own name
    resourceUri: str | UnsetType | None = UNSET  # noqa: N815
    height: int | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET


class Option(Open):
    """One of the answers that a question offers."""

    label: str
    description: str | None = None


class Question(Open):
    """What the agent asks the person."""

    question: str
    header: str | None = None
    options: list[Option] = field(default_factory=list)
    multiSelect: bool = False  # noqa: N815  the wire's own name


class HistoryNode(Open):
    """A node of the whole tree of a session: a turn, and whether it is on the current branch."""

    id: str
    parent_id: str | None
    kind: str
    turn_id: str
    role: TurnRole
    created_at: str | None
    checkpoint_id: str | None
    active: bool
    turn: TurnProjection


class Checkpoint(Open):
    """A point before a turn of the person's, to which the session can go back."""

    checkpoint_id: str
    turn_id: str | None
    parent_id: str | None
    label: str | None
    created_at: str | None
    is_leaf: bool = False


class ContextStats(Open):
    """What fills the model's window."""

    model: str | None
    context_window: int
    used_tokens: int
    parts: dict[str, int]
    estimated: bool


class BackgroundTask(Open):
    """A command that a tool left running."""

    id: str
    session_id: str
    tool_call_id: str | None
    command: str
    status: TaskStatus
    started_at: str | None
    finished_at: str | None = None
    exit_code: int | None = None


class ImportPreview(Open):
    """What a file would become as a session."""

    reader: str
    title: str | None
    events: int
    turns: int
    participants: list[dict[str, Any]]
    models: list[str]
    started_at: str | None
    warnings: list[str] = field(default_factory=list)
    loss: list[dict[str, Any]] = field(default_factory=list)


def without_meta(result: Any) -> tuple[Any, dict[str, Any]]:
    """A tool's result as the model may see it, and the `_meta` that is for the page."""
    meta = result.get("_meta") if isinstance(result, dict) else None
    if not isinstance(meta, dict):
        return result, {}
    return {name: item for name, item in result.items() if name != "_meta"}, meta


def blocks_of_meta(meta: dict[str, Any], call: ToolCallProjection) -> list[ContentBlock]:
    """The blocks that a `_meta` stands for: an action of the page, a card."""
    kinds: tuple[tuple[str, BlockType], ...] = (("bridge", "tool_bridge"), ("ui", "tool_ui"))
    return [
        ContentBlock(
            type=kind,
            content=meta[name],
            tool_call_id=call.id,
            tool_name=call.tool_name,
            display_name=call.display_name,
        )
        for name, kind in kinds
        if isinstance(meta.get(name), dict)
    ]
