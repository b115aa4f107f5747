"""Takes the slots of scheduled tasks as they come due: each once, however many nodes look for
them."""

import asyncio
import contextlib
import random
from datetime import timedelta

import msgspec

from open_token.errors import StoreError
from open_token.model.log_events import NewEvent as Said
from open_token.server.clock import iso, moment_of
from open_token.server.cron import cron_of
from open_token.server.refusals import Refused, busy
from open_token.server.services import Services
from open_token.server.stopping import stopped
from open_token.server.store.rows import Firing, NewRun, TaskRow, TaskRun
from open_token.session import SessionState
from open_token.session.actions import build_text_blocks, send_user_message

GRACE = 3600.0
"""A slot that is late by more seconds is not made up for."""
LONGEST_SLEEP = 15.0
AFTER_FAULT = 1.0
_LOOKED_AT, _TOGETHER = 100, 20
"""Of so many that are due some are tried, by chance: so nodes get little into each other's way."""
SHORTEST_SLEEP = 0.05
_TRIES = 5
BUSY = "skipped: the run before goes on"
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


class Scheduler:
    """Looks for due tasks, sleeps until the next one, and wakes when something changes."""

    def __init__(self, services: Services, grace: float = GRACE) -> None:
        self._services = services
        self._store = services.store
        self._grace = timedelta(seconds=grace)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look for due tasks."""
        self._task = asyncio.create_task(self._work(), name="open-token-scheduler")

    async def close(self) -> None:
        """Stop; a slot that is being taken is taken whole or not at all."""
        if self._task is not None:
            await stopped(self._task)
            self._task = None

    def wake(self) -> None:
        """Something may be due earlier than was thought."""
        self._changed.set()

    async def tick(self) -> list[TaskRun]:
        """Take every slot that is due; gives those that this node took."""
        taken: list[TaskRun] = []
        while due := await self._store.list_due_tasks(self._services.clock.now(), _LOOKED_AT):
            before = len(taken)
            faults = await self._take_all(random.sample(due, min(len(due), _TOGETHER)), taken)
            if faults:
                raise faults[0]
            if len(taken) == before:
                break  # other nodes are at it
        return taken

    async def _take_all(self, due: list[TaskRow], taken: list[TaskRun]) -> list[StoreError]:
        """One task that cannot be written keeps no other from its slot."""
        faults: list[StoreError] = []
        for task in due:
            try:
                run = await self._take(task)
            except StoreError as problem:
                faults.append(problem)
            else:
                taken += [] if run is None else [run]
        return faults

    async def run_now(self, task: TaskRow) -> TaskRun:
        """Start a task by hand; the times at which it is due stay as they are."""
        for late in range(_TRIES):
            run = await self._fire(
                self._firing(task, self._services.clock.now(plus=late / 1000)), task
            )
            if run is not None:
                return run
        raise busy("the task is started by somebody else at this moment")

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self.tick()
                wait = await self._until_next()
            except StoreError:
                wait = AFTER_FAULT  # a store that is away for a while comes back; the slots are still due then
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _until_next(self) -> float:
        nearest = await self._store.get_next_fire()
        if nearest is None:
            return LONGEST_SLEEP
        seconds = (moment_of(nearest) - self._services.clock.moment()).total_seconds()
        return min(max(seconds, SHORTEST_SLEEP), LONGEST_SLEEP)

    async def _take(self, task: TaskRow) -> TaskRun | None:
        """Take a slot, or write down why it is skipped; of slots that were missed only the newest
        counts."""
        now, due = self._services.clock.moment(), moment_of(task.next_fire or "")
        firing = msgspec.structs.replace(
            self._firing(task, task.next_fire or ""), due=task.next_fire
        )
        try:
            cron = cron_of(task.cron, task.timezone)
        except Refused as fault:
            return await self._store.fire_task(
                msgspec.structs.replace(firing, error=f"skipped: {fault.detail}")
            )
        slot, after = cron.last(due, now), cron.after(now)
        following = None if after is None else iso(after)
        if following is not None and task.expires_at is not None and following > task.expires_at:
            following = None
        overlaps = bool(msgspec.json.decode(task.body).get("allow_overlap"))
        firing = msgspec.structs.replace(
            firing, fire_at=iso(slot), next_fire=following, if_running=None if overlaps else BUSY
        )
        if now - slot > self._grace:
            error = f"skipped: missed by {spoken(now - slot)}"
            return await self._store.fire_task(msgspec.structs.replace(firing, error=error))
        return await self._fire(firing, task)

    async def _fire(self, firing: Firing, task: TaskRow) -> TaskRun | None:
        """Write the slot with its session, then tell of both; a session that cannot be written is
        the run's error."""
        services = self._services
        clock, chat_run = services.clock, services.clock.name("run")
        turn, point = clock.name("turn"), clock.name("cp")
        order = {
            "model": task.model or "",
            "mode": "executing",
            "headless": task.skip_confirmations,
        }

        def make(state: SessionState) -> list[Said]:
            begun = {"run_id": chat_run, "info": {**order, "scheduled_task_id": task.id}}
            return [
                ("run.started", begun),
                *send_user_message(turn, build_text_blocks(task.prompt), checkpoint_id=point),
            ]

        session = {"intent": task.title, "model": task.model, "scheduled_task_id": task.id}
        run = NewRun(id=chat_run, body=msgspec.json.encode(order), at=clock.now())
        step, grown = services.journal.draft(task.owner, session, make, run=run)
        try:
            taken = await self._store.fire_task(msgspec.structs.replace(firing, step=step))
        except StoreError as problem:
            return await self._store.fire_task(
                msgspec.structs.replace(firing, error=f"failed: {problem.what}")
            )
        if taken is not None and taken.status == "running":
            services.journal.tell(grown)
            services.runner.wake()
        return taken

    def _firing(self, task: TaskRow, fire_at: str) -> Firing:
        clock = self._services.clock
        return Firing(
            task_id=task.id,
            owner=task.owner,
            run_id=clock.name("trun"),
            fire_at=fire_at,
            at=clock.now(),
        )


def spoken(late: timedelta) -> str:
    """How long something is late, in its largest unit: `3 h`."""
    seconds = int(late.total_seconds())
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit}"
