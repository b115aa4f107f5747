"""Runs: queued work of sessions, claimed under a lease and executed by the agent loop."""

import asyncio
import contextlib
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from open_token.errors import StoreError
from open_token.server.agent.models import build_registry, import_providers
from open_token.server.agent.runner import AgentRun
from open_token.server.bus.interface import LogAppended
from open_token.server.cancellation import cancel_and_wait
from open_token.server.clock import format_timestamp, parse_timestamp
from open_token.server.core.services import Services
from open_token.server.store.interface import TRANSIENT_CODES
from open_token.server.store.rows import Fence, Run

LEASE = 30.0
HEARTBEAT = 10.0
_POLL = 5.0
"""Seconds between polls for runs of dead workers, or runs that another node has queued."""
_GRACE = 1.0
"""Seconds that runs have to reach a safe point when the server stops."""
_RETRY_PAUSE = 0.2
_MAX_RETRY_PAUSE = 5.0
"""Seconds between checks whether a failed store accepts writes again."""
_MAX_BACKOFF = 60.0
"""Seconds before the model is called again for output that could not be stored several times."""
_PROBE_BYTES = 128 << 10
_MAX_PROBE_BYTES = 4 << 20
"""Bytes that the store must accept before the model is called again: a nearly full disk has space
for a lease and none for the output."""
_PROBE_SETTING = "runs.trial"
_NO_LIMIT = 1 << 30
"""Attempts are limited by the job instead of the store, so that giving up and its log entries are
one transaction."""

_WORKER_ROLES = ("all", "worker")
WAKE_CHANNEL = "*runs"
"""The bus channel on which nodes without workers wake those that have some; not a session id."""

_log = logging.getLogger(__name__)


class Runner:
    """Claims and executes runs until it is closed."""

    def __init__(self, services: Services, *, grace: float = _GRACE) -> None:
        self._services = services
        self._worker_id = services.clock.name("worker")
        self._grace = grace
        self._woken = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The tasks by session: a session has one run at a time."""
        self._run_ids: dict[str, str] = {}
        """The run that each of these tasks works on."""
        self._owners: Counter[str] = Counter()
        """How many runs of each user are executed."""
        self._started: set[str] = set()
        """Runs whose task has had its first step: cancelled before that, a task would not run its
        exception handlers."""
        self._stopped: set[str] = set()
        """Runs that were stopped by the user."""
        self._claiming: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._is_closing = False
        self._store_failed_at: float | None = None
        """The loop time of the last failure of the store."""

    async def start(self) -> None:
        """Start to claim runs, if that is a role of this node."""
        if self._services.config.role not in _WORKER_ROLES:
            return
        self._unsubscribe = self._services.bus.listen(WAKE_CHANNEL, lambda _: self._woken.set())
        self._claiming = asyncio.ensure_future(self._claim_forever())

    def preload_models(self) -> None:
        """Import the packages of the configured providers in the background.

        That takes seconds, for which the first message would wait."""
        registry = build_registry(self._services.config, self._services.env)
        if registry.needs_providers():
            threading.Thread(target=import_providers, name="preload", daemon=True).start()

    def wake(self) -> None:
        """Look for runs now, here or on the nodes that have workers."""
        if self._services.config.role in _WORKER_ROLES:
            self._woken.set()
        else:
            self._services.bus.publish(LogAppended(WAKE_CHANNEL, "", 0, 0))

    async def stop(self, session_id: str, run_id: str | None = None) -> bool:
        """Stop the run of a session and wait until that is logged.

        Returns False when this node does not work on it. Raises the StoreError that prevented
        the write."""
        task = self._tasks.get(session_id)
        own_run_id = self._run_ids.get(session_id)
        if task is None or own_run_id is None or task.done():
            return False
        if run_id not in (None, own_run_id):
            return False
        self._stopped.add(own_run_id)
        if own_run_id in self._started:
            task.cancel()
        await asyncio.wait([task])
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, StoreError):
            raise problem
        return True

    async def close(self) -> None:
        """Let runs reach a safe point, then stop them; they continue after the next start."""
        self._is_closing = True
        self._unsubscribe()
        if self._claiming is not None:
            await cancel_and_wait(self._claiming)
        tasks = list(self._tasks.values())
        if not tasks:
            return
        _, unfinished = await asyncio.wait(tasks, timeout=self._grace)
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished)

    async def _claim_forever(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._claim_all()
            except StoreError as problem:
                self._note_store_failure()
                _log.warning("cannot claim runs: %s", problem.what)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._woken.wait()

    async def _claim_all(self) -> None:
        """Claim runs until there are none, or this node is at its limit."""
        while len(self._tasks) < self._services.config.limits.runs:
            if not await self._claim_one():
                return

    async def _claim_one(self) -> bool:
        now, until = await self._next_lease()
        run = await self._services.store.claim_run(
            self._worker_id,
            now,
            until,
            _NO_LIMIT,
            self._expired_before(now),
            self._list_busy_owners(),
        )
        if run is None:
            return False
        previous = self._tasks.get(run.session_id)
        if previous is not None:
            # Its last step is logged and it is about to end.
            await asyncio.wait([previous])
        self._owners[run.owner] += 1
        task = asyncio.ensure_future(self._execute(run))
        self._tasks[run.session_id] = task
        self._run_ids[run.session_id] = run.id
        task.add_done_callback(lambda done: self._on_done(run, done))
        return True

    def _list_busy_owners(self) -> list[str]:
        """Return the users whose further runs wait, so that nobody takes all workers."""
        limit = self._services.config.limits.runs_per_user
        return [owner for owner, count in self._owners.items() if count >= limit]

    def _expired_before(self, now: str) -> str:
        """Return the time before which a lease counts as expired.

        After an outage of the store no lease has expired for a while, because no worker could
        renew one."""
        if self._store_failed_at is None:
            return now
        seconds_ago = asyncio.get_running_loop().time() - self._store_failed_at
        return "" if seconds_ago < LEASE else now

    def _note_store_failure(self) -> None:
        self._store_failed_at = asyncio.get_running_loop().time()

    async def _next_lease(self) -> tuple[str, str]:
        """Return the time of the store, and when a lease taken now expires."""
        # The clock of the store, because the clocks of several nodes differ.
        now = await self._services.store.time(self._services.clock.now())
        until = parse_timestamp(now) + timedelta(seconds=LEASE)
        return now, format_timestamp(until)

    async def _renew_lease(self, run: Run) -> bool:
        """Renew the lease of a run; False when another worker has taken it over."""
        fence = Fence(run_id=run.id, token=run.fencing_token)
        _, until = await self._next_lease()
        return await self._services.store.renew_lease(fence, until)

    def _on_done(self, run: Run, task: asyncio.Task[None]) -> None:
        if self._tasks.get(run.session_id) is task:
            del self._tasks[run.session_id]
            del self._run_ids[run.session_id]
        self._owners[run.owner] -= 1
        if not self._owners[run.owner]:
            del self._owners[run.owner]
        self._stopped.discard(run.id)
        self._started.discard(run.id)
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            _log.error("run failed: %s", type(problem).__name__)
        self.wake()

    async def _execute(self, run: Run) -> None:
        job = AgentRun(self._services, run, lambda: self._is_closing)
        task = asyncio.current_task()
        assert task is not None
        heartbeat = asyncio.ensure_future(self._send_heartbeats(run, task))
        self._started.add(run.id)
        try:
            if run.id in self._stopped:
                raise asyncio.CancelledError
            await self._execute_with_retries(job, run)
        except asyncio.CancelledError:
            # The rest of the task writes to the log and must not be cancelled again.
            task.uncancel()
            if run.id in self._stopped:
                await job.interrupt()
            else:
                await job.suspend()
        finally:
            heartbeat.cancel()
            await job.close()

    async def _execute_with_retries(self, job: AgentRun, run: Run) -> None:
        """Execute a run; after a temporary failure of the store it resumes from its log."""
        pause = _RETRY_PAUSE
        probe_bytes = _PROBE_BYTES
        while True:
            try:
                await job.execute()
                return
            except StoreError as problem:
                if problem.code not in TRANSIENT_CODES or self._is_closing:
                    raise
                self._note_store_failure()
                _log.warning("run waits for the store: %s", problem.what)
            await job.reset()
            if not await self._wait_for_store(run, pause, probe_bytes):
                return
            pause = min(2 * pause, _MAX_BACKOFF)
            probe_bytes = min(2 * probe_bytes, _MAX_PROBE_BYTES)

    async def _wait_for_store(self, run: Run, pause: float, probe_bytes: int) -> bool:
        """Wait until the store accepts writes; False when the run is no longer ours."""
        while not self._is_closing:
            await asyncio.sleep(pause)
            try:
                await self._probe_store(probe_bytes)
                return await self._renew_lease(run)
            except StoreError as problem:
                if problem.code not in TRANSIENT_CODES:
                    raise
                self._note_store_failure()
            pause = max(pause, min(2 * pause, _MAX_RETRY_PAUSE))
        return False

    async def _probe_store(self, size: int) -> None:
        """Write and remove some data: a probe of the store is free, a call of the model is not."""
        store = self._services.store
        try:
            # Random, because a database would compress anything else.
            await store.set_setting(_PROBE_SETTING, secrets.token_hex(size // 2))
        finally:
            with contextlib.suppress(StoreError):
                await store.set_setting(_PROBE_SETTING, None)

    async def _send_heartbeats(self, run: Run, worker: "asyncio.Task[None]") -> None:
        """Renew the lease of a run; cancel its task when the lease is lost."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            try:
                is_ours = await self._renew_lease(run)
            except StoreError:
                self._note_store_failure()
                continue
            if not is_ours:
                worker.cancel()
                return
