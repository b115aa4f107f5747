"""Scheduled tasks as people and agents set them up: checked, changed, started by hand, seen in a
calendar."""

import heapq
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from open_token.server.clock import iso, moment_of
from open_token.server.cron import cron_of
from open_token.server.refusals import bad, busy, missing
from open_token.server.scheduler import Scheduler
from open_token.server.services import Services
from open_token.server.store.rows import NewTask, TaskRow, TaskRun

Json = dict[str, Any]

MOST_TASKS = 1000
MOST_SHOWN = 2000
LONGEST_SPAN = timedelta(days=366)
_LONGEST = {
    "title": 200,
    "prompt": 100_000,
    "cron": 200,
    "timezone": 200,
    "model": 200,
    "expires_at": 64,
}


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked for a task; what is not there stays as it is."""

    title: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET
    skip_confirmations: bool | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    allow_overlap: bool | UnsetType = UNSET


class Schedules:
    """The tasks of all users; the scheduler of this node hears of every change."""

    def __init__(self, services: Services, scheduler: Scheduler) -> None:
        self._services = services
        self._store = services.store
        self._scheduler = scheduler

    async def add(self, owner: str, given: Any) -> Json:
        """Set a task up."""
        wanted = _checked(given)
        for name in ("title", "prompt", "cron"):
            if name not in wanted:
                raise bad(f"{name} is missing")
        if len(await self._store.tasks(owner)) >= MOST_TASKS:
            raise busy(f"a user has at most {MOST_TASKS} scheduled tasks", "too_many_tasks")
        body = {"allow_overlap": wanted.pop("allow_overlap", False)}
        task = NewTask(
            id=self._services.clock.name("task"),
            created_at=self._services.clock.now(),
            body=msgspec.json.encode(body),
            **{"timezone": "UTC", **wanted},
        )
        task = msgspec.structs.replace(task, next_fire=self._next(task))
        added = await self._store.add_task(owner, task)
        self._scheduler.wake()
        return shown(added)

    async def all(self, owner: str) -> list[Json]:
        """Every task of a user, oldest first."""
        return [shown(task) for task in await self._store.tasks(owner)]

    async def one(self, owner: str, task_id: str) -> Json:
        """One task."""
        return shown(await self._task(owner, task_id))

    async def change(self, owner: str, task_id: str, given: Any) -> Json:
        """Give a task other values; when they say so, it is due at another time from now on."""
        task, changes = await self._task(owner, task_id), _checked(given)
        if "allow_overlap" in changes:
            body = {**msgspec.json.decode(task.body), "allow_overlap": changes.pop("allow_overlap")}
            changes["body"] = msgspec.json.encode(body)
        if not changes:
            return shown(task)
        if changes.keys() & {"cron", "timezone", "enabled", "expires_at"}:
            changes["next_fire"] = self._next(msgspec.structs.replace(task, **changes))
        changed = await self._store.change_task(owner, task_id, changes, self._services.clock.now())
        if changed is None:
            raise missing("task")
        self._scheduler.wake()
        return shown(changed)

    async def delete(self, owner: str, task_id: str) -> None:
        """Take a task away; the sessions of its runs stay."""
        if not await self._store.delete_task(owner, task_id):
            raise missing("task")

    async def run_now(self, owner: str, task_id: str) -> Json:
        """Start a task by hand, also one that is disabled."""
        return shown_run(await self._scheduler.run_now(await self._task(owner, task_id)))

    async def runs(self, owner: str, task_id: str, limit: int, offset: int) -> Json:
        """A part of the runs of a task, newest first."""
        await self._task(owner, task_id)
        page = await self._store.list_task_runs(owner, task_id, limit=limit, offset=offset)
        items = [shown_run(run) for run in page.items]
        return {"items": items, "total": page.total, "limit": limit, "offset": offset}

    async def calendar(self, owner: str, since: str, until: str) -> Json:
        """What ran in a stretch of time and what is planned in it, in order."""
        start, end = _moment("from", since), _moment("to", until)
        if end <= start or end - start > LONGEST_SPAN:
            raise bad(f"calendar: `to` is after `from`, by at most {LONGEST_SPAN.days} days")
        tasks = await self._store.tasks(owner)
        page = await self._store.list_task_runs(owner, None, iso(start), iso(end), MOST_SHOWN + 1)
        titles = {task.id: task.title for task in tasks}
        ran = [
            {"title": titles.get(run.task_id, ""), **shown_run(run)} for run in reversed(page.items)
        ]
        planned = heapq.merge(
            *(_planned(task, start, end) for task in tasks), key=lambda item: item["fire_at"]
        )
        items = [*ran, *itertools.islice(planned, MOST_SHOWN + 1)]
        return {
            "items": items[:MOST_SHOWN],
            "total": len(items[:MOST_SHOWN]),
            "truncated": len(items) > MOST_SHOWN,
        }

    async def _task(self, owner: str, task_id: str) -> TaskRow:
        task = await self._store.task(owner, task_id)
        if task is None:
            raise missing("task")
        return task

    def _next(self, task: NewTask) -> str | None:
        cron = cron_of(task.cron, task.timezone)
        if not task.enabled:
            return None
        slot = cron.after(self._services.clock.moment())
        fire = None if slot is None else iso(slot)
        return (
            None
            if fire is None or (task.expires_at is not None and fire > task.expires_at)
            else fire
        )


def shown(task: TaskRow) -> Json:
    """A task as clients see it."""
    left_out = ("owner", "body", "next_fire")
    facts = {
        name: value for name, value in msgspec.structs.asdict(task).items() if name not in left_out
    }
    return {**facts, **msgspec.json.decode(task.body), "next_run_at": task.next_fire}


def shown_run(run: TaskRun) -> Json:
    """A run as clients see it."""
    return msgspec.structs.asdict(run)


def _planned(task: TaskRow, start: datetime, end: datetime) -> Iterator[Json]:
    if not task.enabled or task.next_fire is None:
        return
    first = max(moment_of(task.next_fire), start)
    for slot in cron_of(task.cron, task.timezone).slots(first - timedelta(milliseconds=1)):
        fire = iso(slot)
        if slot >= end or (task.expires_at is not None and fire > task.expires_at):
            return
        yield {"task_id": task.id, "title": task.title, "fire_at": fire, "status": "planned"}


def _checked(given: Any) -> Json:
    """The values that were asked for; Refused with the place of what is wrong, never with what
    stands there."""
    if not isinstance(given, dict):
        raise bad("a scheduled task is an object")
    try:
        wanted = msgspec.convert(given, Wanted)
    except msgspec.ValidationError as fault:
        what, _, where = str(fault).partition(" - at ")
        raise bad(f"{where.strip('`').removeprefix('$.')}: {what[:1].lower()}{what[1:]}") from None
    values = {
        name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not UNSET
    }
    for name, most in _LONGEST.items():
        if isinstance(value := values.get(name), str):
            _check_text(name, value, most)
    if values.get("expires_at") is not None:
        values["expires_at"] = iso(_moment("expires_at", values["expires_at"]))
    return values


def _check_text(name: str, value: str, most: int) -> None:
    if not value.strip() or len(value) > most:
        raise bad(f"{name}: 1 to {most} characters are needed")
    if "\0" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
        raise bad(f"{name}: it holds signs that are no text")


def _moment(name: str, text: str) -> datetime:
    """A time with its offset, or a day (which begins at midnight UTC)."""
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        if moment.tzinfo is None and "T" in text:
            raise ValueError
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise bad(f"{name}: a time is needed, as 2026-01-31T08:00:00Z", "bad_time") from None
