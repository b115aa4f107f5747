"""The scheduler: starts runs of scheduled tasks, each slot once across all nodes."""

import asyncio
import contextlib
import random
from datetime import datetime, timedelta

import msgspec

from open_token.errors import StoreError
from open_token.model.log_events import NewEvent
from open_token.server.cancellation import cancel_and_wait
from open_token.server.clock import format_timestamp, parse_timestamp
from open_token.server.core.cron import Cron, parse_cron
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, conflict
from open_token.server.store.rows import Firing, NewRun, TaskRow, TaskRun
from open_token.session import SessionState
from open_token.session.actions import build_text_blocks, send_user_message

GRACE = 3600.0
"""Seconds that a slot may be late; a later one is recorded as missed."""
LONGEST_SLEEP = 15.0
SHORTEST_SLEEP = 0.05
AFTER_FAULT = 1.0
_DUE_PAGE = 100
_SAMPLE_SIZE = 20
"""Of the due tasks a random sample is tried, so that nodes rarely compete for the same ones."""
_MAX_RETRIES = 5
SKIPPED_BUSY = "skipped: the previous run is still in progress"
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_replace = msgspec.structs.replace


class Scheduler:
    """Fires due tasks, sleeps until the next one, and wakes when something changes."""

    def __init__(self, services: Services, grace: float = GRACE) -> None:
        self._services = services
        self._store = services.store
        self._grace = timedelta(seconds=grace)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to look for due tasks."""
        self._task = asyncio.create_task(self._run(), name="open-token-scheduler")

    async def close(self) -> None:
        """Stop; firing a slot is one transaction, so none is left half done."""
        if self._task is not None:
            await cancel_and_wait(self._task)
            self._task = None

    def wake(self) -> None:
        """Check again now: a task may be due earlier than before."""
        self._changed.set()

    async def tick(self) -> list[TaskRun]:
        """Fire everything that is due; returns the slots that this node has fired."""
        fired: list[TaskRun] = []
        while True:
            due = await self._store.list_due_tasks(self._services.clock.now(), _DUE_PAGE)
            if not due:
                return fired
            sample = random.sample(due, min(len(due), _SAMPLE_SIZE))
            runs, faults = await self._fire_all(sample)
            fired += runs
            if faults:
                raise faults[0]
            if not runs:
                return fired  # other nodes are firing them

    async def _fire_all(self, due: list[TaskRow]) -> tuple[list[TaskRun], list[StoreError]]:
        """Fire several tasks; a failure of one does not affect the others."""
        runs: list[TaskRun] = []
        faults: list[StoreError] = []
        for task in due:
            try:
                run = await self._fire_due(task)
            except StoreError as problem:
                faults.append(problem)
            else:
                if run is not None:
                    runs.append(run)
        return runs, faults

    async def run_now(self, task: TaskRow) -> TaskRun:
        """Start a task manually; its schedule does not change."""
        for attempt in range(_MAX_RETRIES):
            # A slot is unique by its time, so each retry takes another millisecond.
            fire_at = self._services.clock.now(plus=attempt / 1000)
            run = await self._fire(self._build_firing(task, fire_at), task)
            if run is not None:
                return run
        raise conflict("the task is being started by another request")

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self.tick()
                wait = await self._seconds_until_next()
            except StoreError:
                wait = AFTER_FAULT  # the slots stay due until the store is back
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _seconds_until_next(self) -> float:
        next_fire = await self._store.get_next_fire()
        if next_fire is None:
            return LONGEST_SLEEP
        now = self._services.clock.moment()
        seconds = (parse_timestamp(next_fire) - now).total_seconds()
        return min(max(seconds, SHORTEST_SLEEP), LONGEST_SLEEP)

    async def _fire_due(self, task: TaskRow) -> TaskRun | None:
        """Fire a due task, or record why it is skipped; of several missed slots the latest counts.

        Returns None when another node was faster."""
        now = self._services.clock.moment()
        firing = _replace(self._build_firing(task, task.next_fire or ""), due=task.next_fire)
        try:
            cron = parse_cron(task.cron, task.timezone)
        except ApiError as fault:
            skipped = _replace(firing, error=f"skipped: {fault.detail}")
            return await self._store.fire_task(skipped)
        slot = cron.latest_slot(parse_timestamp(task.next_fire or ""), now)
        may_overlap = bool(msgspec.json.decode(task.body).get("allow_overlap"))
        firing = _replace(
            firing,
            fire_at=format_timestamp(slot),
            next_fire=_find_next_fire(task, cron, now),
            if_running=None if may_overlap else SKIPPED_BUSY,
        )
        delay = now - slot
        if delay > self._grace:
            missed = _replace(firing, error=f"skipped: missed by {format_delay(delay)}")
            return await self._store.fire_task(missed)
        return await self._fire(firing, task)

    async def _fire(self, firing: Firing, task: TaskRow) -> TaskRun | None:
        """Store a slot with its new session in one transaction, then publish the session."""
        services = self._services
        clock = services.clock
        run_id = clock.name("run")
        turn_id = clock.name("turn")
        checkpoint_id = clock.name("cp")
        order = {
            "model": task.model or "",
            "mode": "executing",
            "headless": task.skip_confirmations,
        }

        def build_steps(state: SessionState) -> list[NewEvent]:
            info = {**order, "scheduled_task_id": task.id}
            message = send_user_message(
                turn_id, build_text_blocks(task.prompt), checkpoint_id=checkpoint_id
            )
            status = {"changes": {"status": "running"}}
            started: NewEvent = ("run.started", {"run_id": run_id, "info": info})
            return [started, ("session.changed", status), *message]

        session = {"intent": task.title, "model": task.model, "scheduled_task_id": task.id}
        run = NewRun(id=run_id, body=msgspec.json.encode(order), at=clock.now())
        # Prepared and not written: slot, session and run must be one transaction.
        step, grown = services.journal.prepare(task.owner, session, build_steps, run=run)
        try:
            task_run = await self._store.fire_task(_replace(firing, step=step))
        except StoreError as problem:
            failed = _replace(firing, error=f"failed: {problem.what}")
            return await self._store.fire_task(failed)
        if task_run is not None and task_run.status == "running":
            services.journal.publish(grown)
            services.runner.wake()
        return task_run

    def _build_firing(self, task: TaskRow, fire_at: str) -> Firing:
        clock = self._services.clock
        return Firing(
            task_id=task.id,
            owner=task.owner,
            run_id=clock.name("trun"),
            fire_at=fire_at,
            at=clock.now(),
        )


def _find_next_fire(task: TaskRow, cron: Cron, now: datetime) -> str | None:
    slot = cron.next_slot(now)
    if slot is None:
        return None
    next_fire = format_timestamp(slot)
    if task.expires_at is not None and next_fire > task.expires_at:
        return None
    return next_fire


def format_delay(delay: timedelta) -> str:
    """Format a delay in its largest unit: `3 h`."""
    seconds = int(delay.total_seconds())
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
