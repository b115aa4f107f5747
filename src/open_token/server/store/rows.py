"""What goes into a store and comes out of it: plain rows; JSON bodies are the caller's and are
never looked into.

Times are UTC with milliseconds, `2026-01-31T08:00:00.000Z`: so they are shown, and so they compare
as text."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

Scope = Literal["full", "read"]
Role = Literal["owner", "user"]
RunStatus = Literal["queued", "running", "completed", "failed", "interrupted"]
MemoryStatus = Literal["active", "disabled", "superseded"]
TaskRunStatus = Literal["running", "completed", "failed"]


class NewEntry(Struct, frozen=True, kw_only=True):
    """Something that happened, to be written behind the log of a session."""

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
    """A session with what the store itself knows about it."""

    id: str
    owner: str
    stream_sequence: int
    """The last entry of the log; 0 before the first."""
    next_entry: int
    """The sequence that the next turn takes, from 0."""
    projected_sequence: int
    """The last entry that the stored rows know of; what came after it is only in the log."""


class SessionPage(Struct, frozen=True, kw_only=True):
    """A part of a list of sessions."""

    items: list[StoredSession]
    total: int
    content_match_truncated: bool = False
    """So many turns matched that the older ones were not looked at."""


class TurnRow(Struct, frozen=True, kw_only=True):
    """A turn as the caller projects it."""

    id: str
    turn_id: str
    sequence: int
    """Among the turns of the session, from 0."""
    parent_id: str | None = None
    """The turn before it on its branch."""
    patch_sequence: int = 0
    """The last patch that it has seen."""
    body: bytes
    """The turn as JSON, sent on as it is."""
    text: str | None = None
    """The words by which the session can be found; None leaves those that are known."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A place in the tree of turns to which one can go back."""

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
    """Work that a session waits for."""

    id: str
    body: bytes = b"{}"
    at: str


class Run(Struct, frozen=True, kw_only=True):
    """Work for a session, and who does it."""

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


class Step(Struct, frozen=True, kw_only=True):
    """What is written together or not at all: entries of a log, and what follows from them."""

    owner: str
    session_id: str
    entries: Sequence[NewEntry] = ()
    expected: int | None = None
    """The stream sequence that the caller has seen; 0 together with a session row makes the
    session."""
    session: SessionRow | None = None
    turns: Sequence[TurnRow] = ()
    is_projected: bool = True
    """Do the rows say all that the entries say? Of words that still stream, the rows may follow
    later."""
    checkpoints: Sequence[Checkpoint] = ()
    blobs: Sequence[str] = ()
    """Hashes of blobs that the entries refer to."""
    client_message_id: str | None = None
    """A second step with the same one writes nothing and gets the first one's answer."""
    fence: Fence | None = None
    run: NewRun | None = None
    run_end: RunEnd | None = None
    """Ends the run of the fence."""


class Appended(Struct, frozen=True, kw_only=True):
    """Where the entries of a step stand in the log."""

    first: int
    last: int
    run_id: str | None = None
    repeated: bool = False


class Blob(Struct, frozen=True, kw_only=True):
    """Bytes too big for the log."""

    sha256: str
    size: int
    media_type: str
    preview: str


class User(Struct, frozen=True, kw_only=True):
    """A person; one of them owns the server."""

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
    """Whose key that is."""

    user: User
    key: KeyRow


class NewMemory(Struct, frozen=True, kw_only=True):
    """Something to be remembered."""

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
    """Something remembered."""

    id: int
    superseded_by: int | None = None
    updated_at: str | None = None
    hit_count: int = 0
    last_hit_at: str | None = None


class MemoryPage(Struct, frozen=True, kw_only=True):
    """A part of a list of memories."""

    items: list[MemoryRow]
    total: int


class MemoryFilter(Struct, frozen=True, kw_only=True):
    """Which memories; what is None does not matter."""

    keyword: str | None = None
    skill_name: str | None = None
    type: str | None = None
    record_type: str | None = None
    scope: str | None = None
    owner: str | None = None
    topic: str | None = None
    status: MemoryStatus | None = None


class Share(Struct, frozen=True, kw_only=True):
    """A session that whoever has the token may read."""

    session_id: str
    owner: str
    created_at: str
    expires_at: str | None
    body: bytes = b"{}"


class NewTask(Struct, frozen=True, kw_only=True):
    """Words to be sent to an agent by the clock."""

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
    """When it is due; None when it never is again."""
    created_at: str
    body: bytes = b"{}"


class TaskRow(NewTask, frozen=True, kw_only=True):
    """A scheduled task of a user."""

    owner: str
    updated_at: str | None = None


class TaskRun(Struct, frozen=True, kw_only=True):
    """One time that a task ran, or was skipped."""

    id: str
    task_id: str
    fire_at: str
    """The slot; one task has one run for each."""
    session_id: str | None
    status: TaskRunStatus
    error: str | None
    triggered_at: str
    finished_at: str | None


class TaskRunPage(Struct, frozen=True, kw_only=True):
    """A part of a list of runs."""

    items: list[TaskRun]
    total: int


class Firing(Struct, frozen=True, kw_only=True):
    """A slot of a task to be taken: by one node, once, together with the session that it begins."""

    task_id: str
    owner: str
    run_id: str
    fire_at: str
    at: str
    step: Step | None = None
    """The session that begins; None when the slot is only written down as skipped."""
    error: str | None = None
    """Why it is skipped."""
    due: str | None = None
    """The `next_fire` that the node saw: when it is another by now, nothing is written. None:
    started by hand."""
    next_fire: str | None = None
    if_running: str | None = None
    """The error of a slot that comes while an earlier run goes on; None lets both run."""
