"""The core types of the session server.

Field names are those of the specification; unknown keys are preserved in `more`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType, field

from open_token.jsontools.objects import omit_keys
from open_token.model.open_struct import OpenStruct as OpenStruct
from open_token.model.open_struct import decode as decode
from open_token.model.open_struct import encode as encode
from open_token.model.open_struct import from_builtins as from_builtins
from open_token.model.open_struct import to_builtins as to_builtins

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

ROOT_LOOP = "root"
"""The loop of the main agent, which talks with the user."""


class ReplayState(OpenStruct):
    """The progress of a session that replays a recorded one."""

    source_session_id: str
    speed: int = 1
    status: ReplayStatus = "playing"
    position: int = 0
    total: int = 0


class Session(OpenStruct):
    """A conversation with an agent, and its settings."""

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


class ContentBlock(OpenStruct):
    """One element of the content of a turn."""

    type: BlockType
    content: Any = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    display_name: str | None = None


class PendingQuestionRef(OpenStruct):
    """On the call of a subagent: the question that the user has to answer for it."""

    child_loop_name: str
    child_tool_call_id: str
    description: str | None = None


class ToolCallProjection(OpenStruct):
    """A tool call, with its result once there is one."""

    id: str
    tool_name: str
    display_name: str = ""
    arguments: str = ""
    status: ToolStatus = "pending"
    result: Any = None
    duration_ms: int | None = None
    pending_question_ref: PendingQuestionRef | None = None


class MemoryRef(OpenStruct):
    """A memory that was passed to the model."""

    id: int
    content_preview: str = ""
    skill_name: str | None = None


class Attempt(OpenStruct):
    """A model call of a turn that failed and was repeated, with what it had streamed."""

    failed_at: str
    failure_reason: str
    code: str | None = None
    blocks: list[ContentBlock] = field(default_factory=list)


class TurnProjection(OpenStruct):
    """A snapshot of one turn; the fields of a compaction are unset for other turns."""

    id: str
    sequence: int
    turn_id: str
    loop_id: str = ROOT_LOOP
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
    finish_reason: str | UnsetType | None = UNSET
    """Why the model stopped, if it said so; or the limit that ended the run."""
    attempts: list[Attempt] | UnsetType = UNSET
    """The model calls that failed before the one that the turn shows."""


class PatchEnvelope(OpenStruct):
    """A change of a turn sent to clients; `sync` sends the whole turn in `data.turn`."""

    session_id: str
    sequence: int
    turn_id: str
    loop_id: str
    patch_type: PatchType | Literal["sync"]
    data: dict[str, Any] = field(default_factory=dict)


class RawEvent(OpenStruct):
    """One item of `turn:events`, the dialect whose clients resume from a stream sequence."""

    type: str
    payload: dict[str, Any]
    stream_sequence: int


class Memory(OpenStruct):
    """Something that the agent remembers across sessions."""

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
    source_session: str = ""


class ApiKey(OpenStruct):
    """An API key of a user; its plain text is only returned when it is created."""

    id: str
    name: str
    masked: str
    plaintext: str | None = None
    created_at: str | None = None
    last_used_at: str | None = None
    scope: Scope | UnsetType = UNSET


class ScheduledTask(OpenStruct):
    """A prompt that is sent to an agent on a schedule."""

    id: str
    title: str
    prompt: str
    cron: str
    timezone: str = "UTC"
    enabled: bool = True
    expires_at: str | None = None
    skip_confirmations: bool = False
    model: str | None = None


class ScheduledTaskRun(OpenStruct):
    """One run of a scheduled task, or a run that was missed."""

    id: str
    task_id: str
    session_id: str | None = None
    status: RunStatus = "running"
    error: str | None = None
    triggered_at: str | None = None
    finished_at: str | None = None


class Bridge(OpenStruct):
    """An action that a tool requests of the page around the chat."""

    action: str
    payload: Any = None


class UiCard(OpenStruct):
    """A card that a tool shows: HTML, or the URL of a page."""

    target: Target = "inline"
    resourceHTML: str | UnsetType | None = UNSET  # noqa: N815  wire name
    resourceUri: str | UnsetType | None = UNSET  # noqa: N815
    height: int | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET


class Option(OpenStruct):
    """One of the options of a question."""

    label: str
    description: str | None = None


class Question(OpenStruct):
    """A question of the agent to the user."""

    question: str
    header: str | None = None
    options: list[Option] = field(default_factory=list)
    multiSelect: bool = False  # noqa: N815  wire name


class HistoryNode(OpenStruct):
    """A node of the tree of a session: a turn, and whether it is on the current branch."""

    id: str
    parent_id: str | None
    kind: str
    turn_id: str
    role: TurnRole
    created_at: str | None
    checkpoint_id: str | None
    active: bool
    turn: TurnProjection


class Checkpoint(OpenStruct):
    """A point before a user turn, to which the session can be rewound."""

    checkpoint_id: str
    turn_id: str | None
    parent_id: str | None
    label: str | None
    created_at: str | None
    is_leaf: bool = False


class ContextStats(OpenStruct):
    """How the context window of the model is used."""

    model: str | None
    context_window: int
    used_tokens: int
    parts: dict[str, int]
    estimated: bool


class BackgroundTask(OpenStruct):
    """A command that a tool left running in the background."""

    id: str
    session_id: str
    tool_call_id: str | None
    command: str
    status: TaskStatus
    started_at: str | None
    finished_at: str | None = None
    exit_code: int | None = None


class ImportPreview(OpenStruct):
    """What importing a file as a session would result in."""

    reader: str
    title: str | None
    events: int
    turns: int
    participants: list[dict[str, Any]]
    models: list[str]
    started_at: str | None
    warnings: list[str] = field(default_factory=list)
    loss: list[dict[str, Any]] = field(default_factory=list)


def split_meta(result: Any) -> tuple[Any, dict[str, Any]]:
    """Split a tool result into what the model may see and the `_meta` for the page."""
    meta = result.get("_meta") if isinstance(result, dict) else None
    if not isinstance(meta, dict):
        return result, {}
    visible = omit_keys(result, "_meta")
    return visible, meta


def build_meta_blocks(meta: dict[str, Any], call: ToolCallProjection) -> list[ContentBlock]:
    """Return the blocks that a `_meta` stands for: a page action, a card.

    One that is not valid becomes a notification that says why.
    """
    checks: tuple[tuple[str, BlockType, Callable[[Any], str | None]], ...] = (
        ("bridge", "tool_bridge", find_bridge_fault),
        ("ui", "tool_ui", find_card_fault),
    )
    blocks = []
    for name, block_type, find_fault in checks:
        if name not in meta:
            continue
        fault = find_fault(meta[name])
        content: Any = meta[name]
        if fault is not None:
            block_type = "system_notification"
            content = f"{call.display_name or call.tool_name}: _meta.{name} is not valid: {fault}"
        block = ContentBlock(
            type=block_type,
            content=content,
            tool_call_id=call.id,
            tool_name=call.tool_name,
            display_name=call.display_name,
        )
        blocks.append(block)
    return blocks


def find_bridge_fault(bridge: Any) -> str | None:
    """Return what is wrong with a page action; None if it is valid."""
    if not isinstance(bridge, dict):
        return "it is not an object"
    action = bridge.get("action")
    if not isinstance(action, str) or not action.strip():
        return "action must be a text"
    return None


def find_card_fault(card: Any) -> str | None:
    """Return what is wrong with a card; None if it is valid."""
    if not isinstance(card, dict):
        return "it is not an object"
    html = card.get("resourceHTML")
    uri = card.get("resourceUri")
    if (html is None) == (uri is None):
        return "it needs either resourceHTML or resourceUri"
    if html is not None and not isinstance(html, str):
        return "resourceHTML must be a text"
    if uri is not None and not (isinstance(uri, str) and uri.startswith("https://")):
        return "resourceUri must begin with https://"
    if card.get("target") not in get_args(Target):
        return "target must be inline or preview"
    height = card.get("height")
    if height is not None and (type(height) is not int or height < 1):
        return "height must be a whole number of pixels"
    title = card.get("title")
    if title is not None and not isinstance(title, str):
        return "title must be a text"
    return None
