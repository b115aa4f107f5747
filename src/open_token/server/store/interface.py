"""The interface of all stores.

A `SessionWrite` is atomic, and every call that writes returns after the data are durable. Queries
for sessions, memories and keys name their owner: those of other users are not found.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from open_token.model.log_events import LogEntry
from open_token.server.store.errors import TRANSIENT_CODES as TRANSIENT_CODES
from open_token.server.store.errors import ConflictError as ConflictError
from open_token.server.store.errors import FencedError as FencedError
from open_token.server.store.errors import NotFoundError as NotFoundError
from open_token.server.store.rows import (
    Appended,
    Blob,
    Caller,
    Checkpoint,
    Fence,
    Firing,
    KeyRow,
    MemoryFilter,
    MemoryPage,
    MemoryRow,
    NewMemory,
    NewTask,
    Run,
    Scope,
    SessionPage,
    SessionWrite,
    Share,
    StoredSession,
    TaskRow,
    TaskRun,
    TaskRunPage,
    TurnRow,
    User,
)


class SessionStore(Protocol):
    """Sessions, their logs, turns and blobs."""

    async def append(self, write: SessionWrite) -> Appended:
        """Write to a session atomically; raise ConflictError, NotFoundError or FencedError."""

    async def read_log(
        self, owner: str, session_id: str, after: int = 0, limit: int = 100
    ) -> list[LogEntry]:
        """Return up to `limit` entries after a sequence, in order."""

    async def session(self, owner: str, session_id: str) -> StoredSession | None:
        """Return a session."""

    async def progress(self, owner: str, session_id: str) -> tuple[int, int] | None:
        """Return the last entry of a session's log, and the last one in its stored turns."""

    async def get_heads(self, session_ids: Collection[str]) -> dict[str, tuple[str, int]]:
        """Return the owner and the last sequence of sessions of any owner."""

    async def sessions(
        self,
        owner: str,
        q: str | None = None,
        limit: int = 20,
        offset: int = 0,
        template: str | None = None,
    ) -> SessionPage:
        """Return a page of sessions, pinned ones first and then the newest.

        `q` searches intents and turns; `template` is a prefix of the template of the sessions.
        """

    async def delete_session(self, owner: str, session_id: str) -> bool:
        """Delete a session with everything that belongs to it; return whether it existed."""

    async def turns(self, owner: str, session_id: str, whole_tree: bool = False) -> list[TurnRow]:
        """Return the turns of the current branch, or of the whole tree, in order."""

    async def checkpoints(self, owner: str, session_id: str) -> list[Checkpoint]:
        """Return the checkpoints in the order in which they were created."""

    async def put_blob(self, data: bytes, media_type: str) -> Blob:
        """Store bytes that are too big for the log; a `SessionWrite` refers to them by hash."""

    async def read_blob(
        self, owner: str, session_id: str, sha256: str, start: int = 0, length: int | None = None
    ) -> bytes | None:
        """Return a part of a blob, or all of it; None when the session does not refer to it."""

    async def count_bytes(self, owner: str) -> int:
        """Return the size of a user's logs and of the blobs that they refer to."""

    async def sweep_blobs(self, before: float) -> int:
        """Delete unreferenced blobs older than a time (seconds since 1970); return the count."""


class UserStore(Protocol):
    """Users, keys and shares; secrets are returned once and stored as hashes."""

    async def add_user(self, user: User) -> User:
        """Add a user; there is one owner, and names are unique."""

    async def users(self) -> list[User]:
        """Return all users, the owner first."""

    async def user(self, user_id: str) -> User | None:
        """Return a user."""

    async def disable_user(self, user_id: str, at: str | None) -> bool:
        """Disable a user from now on, or enable it again (None); the owner cannot be disabled."""

    async def delete_user(self, user_id: str) -> bool:
        """Delete a user without sessions; the owner cannot be deleted."""

    async def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Create a key; its plain text is only returned here."""

    async def keys(self, user_id: str) -> list[KeyRow]:
        """Return the keys of a user that were not revoked, oldest first."""

    async def rename_key(self, user_id: str, key_id: str, name: str) -> KeyRow | None:
        """Rename a key."""

    async def revoke_key(self, user_id: str, key_id: str, at: str) -> bool:
        """Revoke a key; False when the user has no such key."""

    async def check_key(self, plaintext: str, at: str) -> Caller | None:
        """Return the owner of a valid key; its use is recorded once a minute."""

    async def sign(self, text: str) -> bytes:
        """Return a signature of a text by the pepper."""

    async def add_share(
        self,
        owner: str,
        session_id: str,
        at: str,
        expires_at: str | None = None,
        body: bytes = b"{}",
    ) -> str:
        """Share a session for reading; the token is only returned here."""

    async def share(self, token: str, now: str) -> Share | None:
        """Return the share of a token unless it has expired."""

    async def revoke_share(self, owner: str, session_id: str, token: str | None = None) -> int:
        """Revoke one share of a session, or all of them; return the count."""


class MemoryStore(Protocol):
    """Memories of a user."""

    async def add_memory(
        self, user_id: str, memory: NewMemory, supersedes: Collection[int] = ()
    ) -> MemoryRow:
        """Add a memory that supersedes others."""

    async def memory(self, user_id: str, memory_id: int) -> MemoryRow | None:
        """Return a memory."""

    async def memories(
        self, user_id: str, which: MemoryFilter | None = None, limit: int = 20, offset: int = 0
    ) -> MemoryPage:
        """Return a page of a user's memories, newest first."""

    async def change_memory(
        self, user_id: str, memory_id: int, changes: Mapping[str, Any], at: str
    ) -> MemoryRow | None:
        """Change fields of a memory; None when the user has no such memory."""

    async def delete_memories(self, user_id: str, ids: Collection[int]) -> int:
        """Delete memories; return the count."""

    async def disable_memories(
        self, user_id: str, ids: Collection[int], is_off: bool, at: str
    ) -> int:
        """Disable memories, or enable them again; return the count."""

    async def find_relevant_memories(
        self, user_id: str, text: str, limit: int = 5
    ) -> list[MemoryRow]:
        """Return the active memories most relevant to a text, best first."""

    async def record_memory_hits(self, user_id: str, ids: Collection[int], at: str) -> int:
        """Record the use of memories; return the count."""


class RunStore(Protocol):
    """The queue of runs; a `SessionWrite` queues and ends them."""

    async def time(self, now: str) -> str:
        """Return the time that leases use: that of the node, or of the shared database."""

    async def claim_run(
        self,
        worker: str,
        now: str,
        lease_until: str,
        most_attempts: int = 3,
        lapsed: str | None = None,
        excluded: Collection[str] = (),
    ) -> Run | None:
        """Claim the oldest run that is queued, or whose lease ended before now (or `lapsed`).

        Runs of the excluded owners wait."""

    async def renew_lease(self, fence: Fence, lease_until: str) -> bool:
        """Extend the lease of a run; False when another worker has taken it over."""

    async def expire_leases(self) -> int:
        """Expire all leases, for a node that knows to be the only one; return the count."""

    async def give_up_runs(self, now: str, error: str, most_attempts: int = 3) -> list[Run]:
        """Fail the runs that were tried too often and whose lease has expired."""

    async def runs(self, owner: str, session_id: str) -> list[Run]:
        """Return the runs of a session, oldest first."""


class ScheduleStore(Protocol):
    """Scheduled tasks, and the runs of their slots."""

    async def add_task(self, owner: str, task: NewTask) -> TaskRow:
        """Add a task of a user."""

    async def tasks(self, owner: str) -> list[TaskRow]:
        """Return the tasks of a user, oldest first."""

    async def task(self, owner: str, task_id: str) -> TaskRow | None:
        """Return a task."""

    async def change_task(
        self, owner: str, task_id: str, changes: Mapping[str, Any], at: str
    ) -> TaskRow | None:
        """Change fields of a task; None when the user has no such task."""

    async def delete_task(self, owner: str, task_id: str) -> bool:
        """Delete a task with its runs; their sessions stay."""

    async def list_due_tasks(self, now: str, limit: int = 100) -> list[TaskRow]:
        """Return the enabled tasks of all active users that are due, the most overdue first."""

    async def get_next_fire(self) -> str | None:
        """Return when the next task is due."""

    async def fire_task(self, firing: Firing) -> TaskRun | None:
        """Take a slot: write its run, its session and the task's next slot in one transaction.

        None when another node has taken it. The task run ends together with the first run of its
        session.
        """

    async def list_task_runs(
        self,
        owner: str,
        task_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> TaskRunPage:
        """Return a page of the runs of one task, or of all tasks of a user, newest first.

        Only slots in [since, until) are included.
        """


class Store(SessionStore, UserStore, MemoryStore, RunStore, ScheduleStore, Protocol):
    """Everything that a server stores."""

    async def setting(self, key: str) -> str | None:
        """Return a setting of the server."""

    async def set_setting(self, key: str, value: str | None) -> None:
        """Set a setting; None deletes it."""

    async def replace_setting(self, key: str, old: str | None, new: str | None) -> bool:
        """Replace a setting if its value is still the old one; None stands for a missing one."""

    async def list_settings(self, prefix: str, limit: int = 1000) -> dict[str, str]:
        """Return settings whose key starts with a prefix, in the order of their keys."""

    async def take_setting(self, key: str) -> str | None:
        """Delete a setting and return its value; only one of several concurrent callers gets it."""

    async def check(self, is_deep: bool = False) -> list[str]:
        """Return descriptions of damage; a deep check also reads every blob."""

    async def backup(self, target: Path) -> None:
        """Copy a consistent snapshot of all data into a new folder, during operation."""

    async def close(self) -> None:
        """Finish pending writes and close."""
