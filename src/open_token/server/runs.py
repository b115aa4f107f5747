"""Runs: work that sessions wait for, claimed under a lease and carried out by the agent's loop."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from datetime import timedelta

from open_token.errors import StoreError
from open_token.server.agent.runner import AgentRun
from open_token.server.bus.interface import LogAppended
from open_token.server.clock import iso, moment_of
from open_token.server.services import Services
from open_token.server.stopping import stopped
from open_token.server.store.interface import TRANSIENT_CODES
from open_token.server.store.rows import Fence, Run

LEASE = 30.0
HEARTBEAT = 10.0
_POLL = 5.0
"""Seconds after which a free worker looks for runs whose worker has died, or that another node has
queued."""
_GRACE = 10.0
"""Seconds that work has to come to a safe point when the server stops."""
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""Seconds after which a worker looks whether a store that failed takes writes again."""
_LONGEST_REST = 60.0
"""Seconds before the model is asked again for what could not be written several times."""
_ROOM, _MOST_ROOM = 128 << 10, 4 << 20
"""Letters that must fit before it is asked again: a nearly full disk has room for a lease and none
for an answer."""
_TRIAL = "runs.trial"
_NEVER = 1 << 30
"""The number of attempts is looked at when a run is claimed: it is then ended in one transaction
with its log."""

_WORKERS = ("all", "worker")
CALL = "*runs"
"""Not a session: over this name nodes that do not work themselves tell those that do."""

_log = logging.getLogger(__name__)


class Runner:
    """Works on runs until it is told to stop."""

    def __init__(self, services: Services, *, grace: float = _GRACE) -> None:
        self._services = services
        self._worker = services.clock.name("worker")
        self._grace = grace
        self._woken = asyncio.Event()
        self._working: dict[str, asyncio.Task[None]] = {}
        """The tasks by session: one run of a session at a time."""
        self._runs: dict[str, str] = {}
        """The run that each of them works on."""
        self._begun: set[str] = set()
        """The runs whose task has had its first step: one that had none would not hear that it is
        cancelled."""
        self._stopped: set[str] = set()
        """The runs that are broken off because the person said so."""
        self._claiming: asyncio.Task[None] | None = None
        self._deafen: Callable[[], None] = lambda: None
        self._is_closing = False
        self._failed_at: float | None = None
        """When the store was last seen to fail, by the loop's time."""

    async def start(self) -> None:
        """Begin to claim runs, if that is what this node is for."""
        if self._services.config.role not in _WORKERS:
            return
        self._deafen = self._services.bus.listen(CALL, lambda _: self._woken.set())
        self._claiming = asyncio.ensure_future(self._claim_on())

    def wake(self) -> None:
        """There may be something to do, here or at a node that works."""
        if self._services.config.role in _WORKERS:
            self._woken.set()
        else:
            self._services.bus.publish(LogAppended(CALL, "", 0, 0))

    async def stop(self, session_id: str, run_id: str | None = None) -> bool:
        """Break off the run of a session and wait until that is written; False when nobody here
        works on it.

        Raises what kept it from being written."""
        task, own = self._working.get(session_id), self._runs.get(session_id)
        if task is None or own is None or task.done() or run_id not in (None, own):
            return False
        self._stopped.add(own)
        if own in self._begun:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and isinstance(problem := task.exception(), StoreError):
            raise problem
        return True

    async def close(self) -> None:
        """Let what is under way come to a safe point, and stop; another start goes on with it."""
        self._is_closing = True
        self._deafen()
        if self._claiming is not None:
            await stopped(self._claiming)
        tasks = list(self._working.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _claim_on(self) -> None:
        while True:
            self._woken.clear()
            try:
                while (
                    len(self._working) < self._services.config.limits.runs and await self._claim()
                ):
                    pass
            except StoreError as problem:
                self._store_failed()
                _log.warning("runs cannot be claimed: %s", problem.what)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._woken.wait()

    async def _claim(self) -> bool:
        now, until = await self._lease()
        run = await self._services.store.claim_run(
            self._worker, now, until, _NEVER, self._lapsed(now)
        )
        if run is None:
            return False
        before = self._working.get(run.session_id)
        if before is not None:  # its last step is written, and it is about to leave
            await asyncio.wait([before])
        task = self._working[run.session_id] = asyncio.ensure_future(self._work(run))
        self._runs[run.session_id] = run.id
        task.add_done_callback(lambda done: self._over(run, done))
        return True

    def _lapsed(self, now: str) -> str:
        """Leases that ended before this have run out; none has for a while after a store that kept
        all from it."""
        is_early = (
            self._failed_at is not None
            and asyncio.get_running_loop().time() - self._failed_at < LEASE
        )
        return "" if is_early else now

    def _store_failed(self) -> None:
        self._failed_at = asyncio.get_running_loop().time()

    async def _lease(self) -> tuple[str, str]:
        """What time it is, and until when a run is ours that we take or keep now."""
        now = await self._services.store.time(self._services.clock.now())
        return now, iso(moment_of(now) + timedelta(seconds=LEASE))

    def _over(self, run: Run, task: asyncio.Task[None]) -> None:
        if self._working.get(run.session_id) is task:
            del self._working[run.session_id], self._runs[run.session_id]
        self._stopped.discard(run.id)
        self._begun.discard(run.id)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("a run ended in %s", type(problem).__name__)
        self.wake()

    async def _work(self, run: Run) -> None:
        job = AgentRun(self._services, run, lambda: self._is_closing)
        own = asyncio.current_task()
        assert own is not None
        beating = asyncio.ensure_future(self._keep(run, own))
        self._begun.add(run.id)
        try:
            if run.id in self._stopped:
                raise asyncio.CancelledError
            await self._carry_out(job, run)
        except asyncio.CancelledError:
            own.uncancel()
            if run.id in self._stopped:
                await job.interrupt()
            else:
                await job.suspend()
        finally:
            beating.cancel()
            await job.close()

    async def _carry_out(self, job: AgentRun, run: Run) -> None:
        """Work on a run; a store that is away or full for a while is waited for, and the run goes
        on from its log."""
        pause, room = _PAUSE, _ROOM
        while True:
            try:
                await job.execute()
                return
            except StoreError as problem:
                if problem.code not in TRANSIENT_CODES or self._is_closing:
                    raise
                self._store_failed()
                _log.warning("a run waits for the store: %s", problem.what)
            await job.reset()
            if not await self._is_still_ours(run, pause, room):
                return
            pause, room = min(2 * pause, _LONGEST_REST), min(2 * room, _MOST_ROOM)

    async def _is_still_ours(self, run: Run, pause: float, room: int) -> bool:
        """Wait until the store takes so much again; False when another worker has the run by
        then."""
        fence = Fence(run_id=run.id, token=run.fencing_token)
        while not self._is_closing:
            await asyncio.sleep(pause)
            try:
                await self._try_out(room)
                return await self._services.store.renew_lease(fence, (await self._lease())[1])
            except StoreError as problem:
                if problem.code not in TRANSIENT_CODES:
                    raise
                self._store_failed()
            pause = max(pause, min(2 * pause, _LONGEST_PAUSE))
        return False

    async def _try_out(self, room: int) -> None:
        """Write so many letters and take them away again: to ask the store costs nothing, to ask
        the model does."""
        store = self._services.store
        try:
            await store.set_setting(
                _TRIAL, secrets.token_hex(room // 2)
            )  # at random, or a database would pack them
        finally:
            with contextlib.suppress(StoreError):
                await store.set_setting(_TRIAL, None)

    async def _keep(self, run: Run, worker: "asyncio.Task[None]") -> None:
        """Renew the lease while the work goes on; when it is lost, the work is broken off."""
        fence = Fence(run_id=run.id, token=run.fencing_token)
        while True:
            await asyncio.sleep(HEARTBEAT)
            try:
                is_ours = await self._services.store.renew_lease(fence, (await self._lease())[1])
            except StoreError:
                self._store_failed()
                continue
            if not is_ours:
                worker.cancel()
                return
