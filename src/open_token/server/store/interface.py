"""What every store can do; the server knows no more of it.

A step is written whole or not at all, and a call that writes returns after it is safely on the
disk. Whoever asks for something of a session, a memory or a key names whose it must be: another's
is not there."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from open_token.entries import Entry
from open_token.server.store._faults import PASSING as PASSING
from open_token.server.store._faults import Conflict as Conflict
from open_token.server.store._faults import Fenced as Fenced
from open_token.server.store._faults import Missing as Missing
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
    Share,
    Step,
    StoredSession,
    TaskRow,
    TaskRun,
    TaskRunPage,
    TurnRow,
    User,
)


class SessionStore(Protocol):
    """Sessions, their logs, turns and blobs."""

    async def append(self, step: Step) -> Appended:
        """Write a step; raises Conflict, Missing or Fenced, and then nothing is written."""

    async def read_log(
        self, owner: str, session_id: str, after: int = 0, limit: int = 100
    ) -> list[Entry]:
        """Up to `limit` entries behind a sequence, in order."""

    async def session(self, owner: str, session_id: str) -> StoredSession | None:
        """One session."""

    async def progress(self, owner: str, session_id: str) -> tuple[int, int] | None:
        """The last entry of a session's log, and the last one that its stored turns know of."""

    async def heads(self, session_ids: Collection[str]) -> dict[str, tuple[str, int]]:
        """The owner and the last sequence of anybody's sessions, for who tells those who watch;
        none of those gone."""

    async def sessions(
        self,
        owner: str,
        q: str | None = None,
        limit: int = 20,
        offset: int = 0,
        template: str | None = None,
    ) -> SessionPage:
        """A part of the list, pinned ones first and then the newest; `q` looks in intents and in
        turns.

        `template` is how the template begins that the sessions were made from."""

    async def delete_session(self, owner: str, session_id: str) -> bool:
        """Take a session away with everything that belongs to it, its environment too; False when
        there is none."""

    async def turns(self, owner: str, session_id: str, whole_tree: bool = False) -> list[TurnRow]:
        """The turns of the current branch in order; or of all branches, in the order in which they
        began."""

    async def checkpoints(self, owner: str, session_id: str) -> list[Checkpoint]:
        """The places to go back to, in the order in which they were made."""

    async def put_blob(self, data: bytes, media_type: str) -> Blob:
        """Keep bytes that are too big for the log; the step that refers to them names their
        hash."""

    async def read_blob(
        self, owner: str, session_id: str, sha256: str, start: int = 0, length: int | None = None
    ) -> bytes | None:
        """A part of a blob, or all of it; None when the session does not refer to it."""

    async def sweep_blobs(self, before: float) -> int:
        """Take away blobs that no session has and that were put before a time (in seconds since
        1970)."""


class PeopleStore(Protocol):
    """Users, keys and shares; secrets are shown once and kept as digests."""

    async def add_user(self, user: User) -> User:
        """Enter a user; there is one owner, and no name twice."""

    async def users(self) -> list[User]:
        """Everybody, the owner first."""

    async def user(self, user_id: str) -> User | None:
        """The user of an id."""

    async def disable_user(self, user_id: str, at: str | None) -> bool:
        """Lock a user out from now on, or let them in again (None); the owner stays."""

    async def delete_user(self, user_id: str) -> bool:
        """Take a user away who has no session; the owner stays."""

    async def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Make a key; its plain text is told here and never again."""

    async def keys(self, user_id: str) -> list[KeyRow]:
        """The keys of a user that were not revoked, oldest first."""

    async def rename_key(self, user_id: str, key_id: str, name: str) -> KeyRow | None:
        """Give a key another name."""

    async def revoke_key(self, user_id: str, key_id: str, at: str) -> bool:
        """End a key at once; False when the user has no such key."""

    async def check_key(self, plaintext: str, at: str) -> Caller | None:
        """Whose key that is, if it is one and may be used; notes its use once a minute."""

    async def add_share(
        self,
        owner: str,
        session_id: str,
        at: str,
        expires_at: str | None = None,
        body: bytes = b"{}",
    ) -> str:
        """Open a session for reading; gives the token, here and never again."""

    async def share(self, token: str, now: str) -> Share | None:
        """What a token opens, unless its time is over."""

    async def revoke_share(self, owner: str, session_id: str, token: str | None = None) -> int:
        """Close a session to a token, or to all of them; tells how many there were."""


class MemoryStore(Protocol):
    """What agents remember for a user."""

    async def add_memory(
        self, user_id: str, memory: NewMemory, supersedes: Collection[int] = ()
    ) -> MemoryRow:
        """Remember something; it takes the place of what it supersedes."""

    async def memory(self, user_id: str, memory_id: int) -> MemoryRow | None:
        """One memory."""

    async def memories(
        self, user_id: str, which: MemoryFilter | None = None, limit: int = 20, offset: int = 0
    ) -> MemoryPage:
        """A part of a user's memories, newest first."""

    async def change_memory(
        self, user_id: str, memory_id: int, changes: Mapping[str, Any], at: str
    ) -> MemoryRow | None:
        """Give a memory other values; None when the user has no such memory."""

    async def delete_memories(self, user_id: str, ids: Collection[int]) -> int:
        """Forget; tells how many there were."""

    async def disable_memories(
        self, user_id: str, ids: Collection[int], is_off: bool, at: str
    ) -> int:
        """Keep memories from being used, or let them be used again; tells how many there were."""

    async def relevant_memories(self, user_id: str, text: str, limit: int = 5) -> list[MemoryRow]:
        """The memories in use that have most to do with a text, best first."""

    async def hit_memories(self, user_id: str, ids: Collection[int], at: str) -> int:
        """Count that memories were used; tells how many there were."""


class RunStore(Protocol):
    """Work that sessions wait for; a run is queued and ended by steps."""

    async def time(self, now: str) -> str:
        """The time by which leases count: a node's own, or that of the database which nodes
        share."""

    async def claim_run(
        self,
        worker: str,
        now: str,
        lease_until: str,
        most_attempts: int = 3,
        lapsed: str | None = None,
    ) -> Run | None:
        """Take the oldest run that nobody works on, or whose worker let its lease run out: before
        now, or `lapsed`."""

    async def renew_lease(self, fence: Fence, lease_until: str) -> bool:
        """Keep a run; False when it is no longer this worker's."""

    async def give_up_runs(self, now: str, error: str, most_attempts: int = 3) -> list[Run]:
        """End as failed the runs that were tried too often and that nobody works on."""

    async def runs(self, owner: str, session_id: str) -> list[Run]:
        """The runs of a session, oldest first."""


class ScheduleStore(Protocol):
    """Tasks that are due by the clock, and what became of each of their slots."""

    async def add_task(self, owner: str, task: NewTask) -> TaskRow:
        """Enter a task of a user."""

    async def tasks(self, owner: str) -> list[TaskRow]:
        """The tasks of a user, oldest first."""

    async def task(self, owner: str, task_id: str) -> TaskRow | None:
        """One task."""

    async def change_task(
        self, owner: str, task_id: str, changes: Mapping[str, Any], at: str
    ) -> TaskRow | None:
        """Give a task other values; None when the user has no such task."""

    async def delete_task(self, owner: str, task_id: str) -> bool:
        """Take a task away with its runs; their sessions stay."""

    async def due_tasks(self, now: str, limit: int = 100) -> list[TaskRow]:
        """Enabled tasks of everybody who is not locked out whose time has come, the most overdue
        first."""

    async def nearest_fire(self) -> str | None:
        """When the next task is due."""

    async def fire_task(self, firing: Firing) -> TaskRun | None:
        """Take a slot: its run, its session and the task's next slot, all or nothing; None when
        another node did.

        The run ends together with the first run of its session."""

    async def task_runs(
        self,
        owner: str,
        task_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> TaskRunPage:
        """A part of the runs of one task, or of all of a user's, whose slots lie in [since, until);
        newest first."""


class Store(SessionStore, PeopleStore, MemoryStore, RunStore, ScheduleStore, Protocol):
    """Everything that a server keeps."""

    async def setting(self, key: str) -> str | None:
        """A setting of the server."""

    async def set_setting(self, key: str, value: str | None) -> None:
        """Keep a setting; None takes it away."""

    async def take_setting(self, key: str) -> str | None:
        """Take a setting away and tell what it was; of several who ask at once, one is told."""

    async def check(self, is_deep: bool = False) -> list[str]:
        """What is wrong with the data, in words; deep also reads every blob."""

    async def backup(self, target: Path) -> None:
        """Copy all data as they are at one moment into a new folder, while others go on."""

    async def close(self) -> None:
        """Write what waits, and let go."""
