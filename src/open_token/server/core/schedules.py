"""Scheduled tasks as people and agents manage them, with a calendar of past and future runs."""

import heapq
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from open_token.server.clock import format_timestamp, parse_timestamp
from open_token.server.core.cron import parse_cron
from open_token.server.core.scheduler import Scheduler
from open_token.server.core.services import Services
from open_token.server.errors import bad_request, conflict, not_found
from open_token.server.store.rows import NewTask, TaskRow, TaskRun

Json = dict[str, Any]

MAX_CALENDAR_ITEMS = 2000
MAX_CALENDAR_SPAN = timedelta(days=366)
_MAX_LENGTHS = {
    "title": 200,
    "prompt": 100_000,
    "cron": 200,
    "timezone": 200,
    "model": 200,
    "expires_at": 64,
}
_SCHEDULE_FIELDS = {"cron", "timezone", "enabled", "expires_at"}
_READ_ONLY_FIELDS = ("id", "created_at", "updated_at", "next_run_at")
"""Fields of a task that clients may send back; they have no effect."""
_HIDDEN_FIELDS = ("owner", "body", "next_fire")


class TaskChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a task that a client may set; unset ones stay as they are."""

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
    """The scheduled tasks of all users; the scheduler of this node is woken by every change."""

    def __init__(self, services: Services, scheduler: Scheduler) -> None:
        self._services = services
        self._store = services.store
        self._scheduler = scheduler

    async def add(self, owner: str, given: Any) -> Json:
        """Create a task."""
        values = _parse_changes(given)
        for name in ("title", "prompt", "cron"):
            if name not in values:
                raise bad_request(f"{name} is missing")
        limit = self._services.config.limits.tasks_per_user
        if len(await self._store.tasks(owner)) >= limit:
            raise conflict(f"limit of {limit} scheduled tasks reached", "too_many_tasks")
        body = {"allow_overlap": values.pop("allow_overlap", False)}
        values.setdefault("timezone", "UTC")
        task = NewTask(
            id=self._services.clock.name("task"),
            created_at=self._services.clock.now(),
            body=msgspec.json.encode(body),
            **values,
        )
        task = msgspec.structs.replace(task, next_fire=self._find_next_fire(task))
        added = await self._store.add_task(owner, task)
        self._scheduler.wake()
        return task_to_json(added)

    async def list_tasks(self, owner: str) -> list[Json]:
        """Return the tasks of a user, oldest first."""
        return [task_to_json(task) for task in await self._store.tasks(owner)]

    async def get_task(self, owner: str, task_id: str) -> Json:
        """Return one task."""
        return task_to_json(await self._get_task(owner, task_id))

    async def update_task(self, owner: str, task_id: str, given: Any) -> Json:
        """Update a task; its next run is computed anew when the schedule changes."""
        task = await self._get_task(owner, task_id)
        changes = _parse_changes(given)
        if "allow_overlap" in changes:
            body = {**msgspec.json.decode(task.body), "allow_overlap": changes.pop("allow_overlap")}
            changes["body"] = msgspec.json.encode(body)
        if not changes:
            return task_to_json(task)
        if changes.keys() & _SCHEDULE_FIELDS:
            updated = msgspec.structs.replace(task, **changes)
            changes["next_fire"] = self._find_next_fire(updated)
        changed = await self._store.change_task(owner, task_id, changes, self._services.clock.now())
        if changed is None:
            raise not_found("task")
        self._scheduler.wake()
        return task_to_json(changed)

    async def delete(self, owner: str, task_id: str) -> None:
        """Delete a task; the sessions of its runs stay."""
        if not await self._store.delete_task(owner, task_id):
            raise not_found("task")

    async def run_now(self, owner: str, task_id: str) -> Json:
        """Start a task manually, even when it is disabled."""
        task = await self._get_task(owner, task_id)
        return run_to_json(await self._scheduler.run_now(task))

    async def list_runs(self, owner: str, task_id: str, limit: int, offset: int) -> Json:
        """Return a page of the runs of a task, newest first."""
        await self._get_task(owner, task_id)
        page = await self._store.list_task_runs(owner, task_id, limit=limit, offset=offset)
        items = [run_to_json(run) for run in page.items]
        return {"items": items, "total": page.total, "limit": limit, "offset": offset}

    async def build_calendar(self, owner: str, since: str, until: str) -> list[Json]:
        """Return the times of past and planned runs within a period, for each task."""
        start = _parse_time("from", since)
        end = _parse_time("to", until)
        if end <= start or end - start > MAX_CALENDAR_SPAN:
            days = MAX_CALENDAR_SPAN.days
            raise bad_request(f"calendar: `to` must be after `from`, by at most {days} days")
        tasks = await self._store.tasks(owner)
        page = await self._store.list_task_runs(
            owner,
            None,
            format_timestamp(start),
            format_timestamp(end),
            MAX_CALENDAR_ITEMS,
        )
        past = [(run.fire_at, run.task_id) for run in reversed(page.items)]
        planned = heapq.merge(*(_plan_runs(task, start, end) for task in tasks))
        times: dict[str, list[str]] = {task.id: [] for task in tasks}
        for fire_at, task_id in itertools.islice(
            itertools.chain(past, planned), MAX_CALENDAR_ITEMS
        ):
            times.setdefault(task_id, []).append(fire_at)
        titles = {task.id: task.title for task in tasks}
        return [
            {"task_id": task_id, "title": titles.get(task_id, ""), "occurrences": occurrences}
            for task_id, occurrences in times.items()
            if occurrences
        ]

    async def _get_task(self, owner: str, task_id: str) -> TaskRow:
        task = await self._store.task(owner, task_id)
        if task is None:
            raise not_found("task")
        return task

    def _find_next_fire(self, task: NewTask) -> str | None:
        # Parsed even when the task is disabled, so that an invalid expression is rejected.
        cron = parse_cron(task.cron, task.timezone)
        if not task.enabled:
            return None
        slot = cron.next_slot(self._services.clock.moment())
        if slot is None:
            return None
        next_fire = format_timestamp(slot)
        if task.expires_at is not None and next_fire > task.expires_at:
            return None
        return next_fire


def task_to_json(task: TaskRow) -> Json:
    """Return a task as clients see it."""
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(task).items()
        if name not in _HIDDEN_FIELDS
    }
    return {**fields, **msgspec.json.decode(task.body), "next_run_at": task.next_fire}


def run_to_json(run: TaskRun) -> Json:
    """Return a run as clients see it."""
    return msgspec.structs.asdict(run)


def _plan_runs(task: TaskRow, start: datetime, end: datetime) -> Iterator[tuple[str, str]]:
    """Yield the planned times of a task, each with its id."""
    if not task.enabled or task.next_fire is None:
        return
    first = max(parse_timestamp(task.next_fire), start)
    cron = parse_cron(task.cron, task.timezone)
    # Slots are those after a time; a slot at exactly the start is part of the period.
    for slot in cron.slots(first - timedelta(milliseconds=1)):
        if slot >= end:
            return
        fire_at = format_timestamp(slot)
        if task.expires_at is not None and fire_at > task.expires_at:
            return
        yield fire_at, task.id


def _parse_changes(given: Any) -> Json:
    """Validate the fields of a task; errors name the field, never its value."""
    if not isinstance(given, dict):
        raise bad_request("a scheduled task must be an object")
    try:
        fields = {name: value for name, value in given.items() if name not in _READ_ONLY_FIELDS}
        changes = msgspec.convert(fields, TaskChanges)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at ")
        field = path.strip("`").removeprefix("$.") or "task"
        raise bad_request(f"{field}: {what[:1].lower()}{what[1:]}") from None
    values = {
        name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET
    }
    for name, max_length in _MAX_LENGTHS.items():
        value = values.get(name)
        if isinstance(value, str):
            _check_text(name, value, max_length)
    if values.get("expires_at") is not None:
        values["expires_at"] = format_timestamp(_parse_time("expires_at", values["expires_at"]))
    return values


def _check_text(name: str, value: str, max_length: int) -> None:
    if not value.strip() or len(value) > max_length:
        raise bad_request(f"{name}: must have 1 to {max_length} characters")
    # PostgreSQL stores no NUL, and UTF-8 has no lone surrogates.
    has_surrogate = any("\ud800" <= character <= "\udfff" for character in value)
    if "\0" in value or has_surrogate:
        raise bad_request(f"{name}: contains characters that are not valid text")


def _parse_time(name: str, text: str) -> datetime:
    """Parse a timestamp with an offset, or a date (midnight UTC)."""
    has_time = "T" in text
    try:
        # A plus sign that was not escaped in a query arrives as a space.
        moment = datetime.fromisoformat(text.replace(" ", "+") if has_time else text)
        if moment.tzinfo is None and has_time:
            raise ValueError
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise bad_request(
            f"{name}: timestamp required, such as 2026-01-31T08:00:00Z", "bad_time"
        ) from None
