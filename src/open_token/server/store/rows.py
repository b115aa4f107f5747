"""The rows that go into a store and come out of it.

JSON bodies belong to the caller and are not interpreted. Times are UTC with milliseconds
(`2026-01-31T08:00:00.000Z`), so that they compare as text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

Scope = Literal["full", "read"]
Role = Literal["owner", "user"]
RunStatus = Literal["queued", "running", "completed", "failed", "interrupted"]
MemoryStatus = Literal["active", "disabled", "superseded"]
TaskRunStatus = Literal["running", "completed", "failed"]


class NewEntry(Struct, frozen=True, kw_only=True):
    """An event to be appended to the log of a session."""

    kind: str
    data: Any
    """A JSON object, or a msgspec Struct that becomes one."""
    at: str


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as the caller projects it."""

    intent: str
    status: str
    created_at: str
    updated_at: str
    is_pinned: bool = False
    head: str | None = None
    """The id of the last turn of the current branch."""
    body: bytes = b"{}"
    """Everything about it as JSON."""


class StoredSession(SessionRow, frozen=True, kw_only=True):
    """A session, with the values that the store maintains."""

    id: str
    owner: str
    stream_sequence: int
    """The last entry of the log; 0 before the first."""
    next_entry: int
    """The sequence of the next turn, counted from 0."""
    projected_sequence: int
    """The last entry that the stored rows include; later ones are only in the log."""


class SessionPage(Struct, frozen=True, kw_only=True):
    """A page of sessions."""

    items: list[StoredSession]
    total: int
    content_match_truncated: bool = False
    """So many turns matched that older ones were not searched."""


class TurnRow(Struct, frozen=True, kw_only=True):
    """A turn as the caller projects it."""

    id: str
    turn_id: str
    sequence: int
    """The position among the turns of the session, counted from 0."""
    parent_id: str | None = None
    """The turn before it on its branch."""
    patch_sequence: int = 0
    """The last patch that it includes."""
    body: bytes
    """The turn as JSON, sent to clients verbatim."""
    text: str | None = None
    """The text by which the session can be found; None leaves the stored text unchanged."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A point in the tree of turns to which a session can be rewound."""

    id: str
    turn_id: str | None = None
    parent_id: str | None = None
    label: str | None = None
    created_at: str
    seq: int = 0
    """The last entry of the log before it; the store fills it in."""


class Fence(Struct, frozen=True, kw_only=True):
    """The right of a worker to write for a run."""

    run_id: str
    token: int


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to be queued."""

    id: str
    body: bytes = b"{}"
    at: str


class Run(Struct, frozen=True, kw_only=True):
    """A run of a session, and its worker."""

    id: str
    session_id: str
    owner: str
    status: RunStatus
    body: bytes
    created_at: str
    started_at: str | None
    finished_at: str | None
    worker: str | None
    lease_until: str | None
    fencing_token: int
    attempts: int
    error: str | None


class RunEnd(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    status: RunStatus
    at: str
    error: str | None = None
    is_waiting: bool = False
    """Whether the run stopped at a question; a scheduled run is not completed by that."""


class SessionWrite(Struct, frozen=True, kw_only=True):
    """One atomic write to a session: log entries, and the rows that follow from them."""

    owner: str
    session_id: str
    entries: Sequence[NewEntry] = ()
    expected: int | None = None
    """The stream sequence that the caller has seen; 0 together with a session row creates it."""
    session: SessionRow | None = None
    turns: Sequence[TurnRow] = ()
    is_projected: bool = True
    """Whether the rows include all entries; rows of text that still streams may follow later."""
    checkpoints: Sequence[Checkpoint] = ()
    blobs: Sequence[str] = ()
    """Hashes of blobs that the entries refer to."""
    client_message_id: str | None = None
    """A second write with the same id writes nothing and returns the result of the first."""
    fence: Fence | None = None
    run: NewRun | None = None
    run_end: RunEnd | None = None
    """Ends the run of the fence."""
    settings: Mapping[str, str] = {}
    """Settings of the server that are stored together with the entries."""


class Appended(Struct, frozen=True, kw_only=True):
    """The positions in the log of the entries that were written."""

    first: int
    last: int
    run_id: str | None = None
    repeated: bool = False


class Blob(Struct, frozen=True, kw_only=True):
    """Bytes that are too big for the log."""

    sha256: str
    size: int
    media_type: str
    preview: str


class User(Struct, frozen=True, kw_only=True):
    """A user; one of them owns the server."""

    id: str
    name: str
    role: Role
    created_at: str
    disabled_at: str | None = None
    body: bytes = b"{}"


class KeyRow(Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    user_id: str
    name: str
    scope: Scope
    masked: str
    created_at: str
    last_used_at: str | None = None
    revoked_at: str | None = None


class Caller(Struct, frozen=True, kw_only=True):
    """The user and key of an authenticated request."""

    user: User
    key: KeyRow
    """The API key, or that which has minted the token; without an id there is none."""
    session_id: str | None = None
    """The only session that the caller may use."""
    expires_at: str | None = None
    """When the token of the caller ends."""


class NewMemory(Struct, frozen=True, kw_only=True):
    """A memory to be added."""

    content: str
    type: str
    created_at: str
    skill_name: str | None = None
    record_type: str | None = None
    scope: str | None = None
    owner: str | None = None
    topic: str | None = None
    mem0_id: str | None = None
    write_reason: str | None = None
    source_session: str | None = None
    disabled: bool = False


class MemoryRow(NewMemory, frozen=True, kw_only=True):
    """A stored memory."""

    id: int
    superseded_by: int | None = None
    updated_at: str | None = None
    hit_count: int = 0
    last_hit_at: str | None = None

    def __post_init__(self) -> None:
        # A memory that a person wrote has no session; clients expect a text.
        if self.source_session is None:
            force_setattr(self, "source_session", "")


class MemoryPage(Struct, frozen=True, kw_only=True):
    """A page of memories."""

    items: list[MemoryRow]
    total: int


class MemoryFilter(Struct, frozen=True, kw_only=True):
    """A filter of memories; None matches everything."""

    keyword: str | None = None
    skill_name: str | None = None
    type: str | None = None
    record_type: str | None = None
    scope: str | None = None
    owner: str | None = None
    topic: str | None = None
    status: MemoryStatus | None = None


class Share(Struct, frozen=True, kw_only=True):
    """Read access to a session for the holder of a token."""

    session_id: str
    owner: str
    created_at: str
    expires_at: str | None
    body: bytes = b"{}"


class NewTask(Struct, frozen=True, kw_only=True):
    """A prompt to be sent to an agent on a schedule."""

    id: str
    title: str
    prompt: str
    cron: str
    timezone: str
    enabled: bool = True
    expires_at: str | None = None
    skip_confirmations: bool = False
    model: str | None = None
    next_fire: str | None = None
    """When it is due; None when it is never due again."""
    created_at: str
    body: bytes = b"{}"


class TaskRow(NewTask, frozen=True, kw_only=True):
    """A scheduled task of a user."""

    owner: str
    updated_at: str | None = None


class TaskRun(Struct, frozen=True, kw_only=True):
    """One run of a task, or a slot that was skipped."""

    id: str
    task_id: str
    fire_at: str
    """The slot; a task has one run for each slot."""
    session_id: str | None
    status: TaskRunStatus
    error: str | None
    triggered_at: str
    finished_at: str | None


class TaskRunPage(Struct, frozen=True, kw_only=True):
    """A page of task runs."""

    items: list[TaskRun]
    total: int


class Firing(Struct, frozen=True, kw_only=True):
    """A slot of a task to be taken by one node, together with the session that it starts."""

    task_id: str
    owner: str
    run_id: str
    fire_at: str
    at: str
    step: SessionWrite | None = None
    """The session to start; None when the slot is only recorded as skipped."""
    error: str | None = None
    """Why it is skipped."""
    due: str | None = None
    """The `next_fire` that the node saw; nothing is written if it has changed (None: manual)."""
    next_fire: str | None = None
    if_running: str | None = None
    """The error of a slot that falls into an earlier run; None lets both run."""
