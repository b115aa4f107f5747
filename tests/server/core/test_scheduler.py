"""Slots are taken once, late ones made up for or written down; a day on which the clock changes has
each once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from helpers.server.scheduling import ANNA, BEN, Hand, node, scheduling
from helpers.server.stores import new_postgres
from open_token.errors import StoreError
from open_token.server.clock import parse_timestamp
from open_token.server.core.scheduler import Scheduler, format_delay
from open_token.server.core.services import Services
from open_token.server.store.interface import Store
from open_token.server.store.postgres.store import PostgresStore
from open_token.server.store.rows import Fence, Firing, NewTask, RunEnd, SessionWrite, User

TASK = {"title": "Report", "prompt": "Write it", "cron": "0 9 * * *", "timezone": "UTC"}
Play = Callable[[Services, Scheduler, Hand], Coroutine[Any, Any, None]]


def played(tmp_path: Path, play: Play, hand: Hand | None = None) -> None:
    async def whole() -> None:
        async with scheduling(tmp_path, hand) as (services, scheduler, clock):
            await play(services, scheduler, clock)

    asyncio.run(whole())


async def end_run(
    services: Services, session_id: str, status: str = "completed", error: str | None = None
) -> None:
    run = None
    while run is None or run.session_id != session_id:  # those of other sessions may come first
        run = await services.store.claim_run("w", services.clock.now(), services.clock.now(plus=30))
        assert run is not None
    fence = Fence(run_id=run.id, token=run.fencing_token)
    end = RunEnd(status=status, at=services.clock.now(), error=error)  # type: ignore[arg-type]
    await services.store.append(
        SessionWrite(owner=ANNA, session_id=session_id, fence=fence, run_end=end)
    )


def test_a_slot_becomes_a_session_with_the_words_and_a_run(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        task = await services.schedules.add(
            ANNA, {**TASK, "model": "demo", "skip_confirmations": True}
        )
        assert await scheduler.tick() == []
        heard: list[int] = []
        hand.turn(hours=1, seconds=2)
        (run,) = await scheduler.tick()
        assert run.session_id
        services.bus.listen(run.session_id, lambda grown: heard.append(grown.last))
        assert (run.status, run.fire_at, run.triggered_at) == (
            "running",
            "2026-01-31T09:00:00.000Z",
            "2026-01-31T09:00:02.000Z",
        )
        state = await services.journal.state(ANNA, run.session_id)
        assert (state.session.intent, state.session.status, state.session.model) == (
            "Report",
            "running",
            "demo",
        )
        assert [turn.snapshot().blocks[0].content for turn in state.turns.values()] == ["Write it"]
        kinds = [entry.kind for entry in await services.store.read_log(ANNA, run.session_id)]
        assert kinds == [
            "session.created",
            "run.started",
            "session.changed",
            "checkpoint.made",
            "turn.opened",
            "turn.ended",
        ]
        (work,) = await services.store.runs(ANNA, run.session_id)
        body = {"headless": True, "model": "demo", "mode": "executing"}
        assert (work.status, msgspec.json.decode(work.body)) == ("queued", body)
        assert services.runner.woken == 1  # type: ignore[attr-defined]
        assert await scheduler.tick() == []
        await end_run(services, run.session_id)
        (shown,) = (await services.schedules.list_runs(ANNA, task["id"], 10, 0))["items"]
        assert (shown["status"], shown["session_id"]) == ("completed", run.session_id)

    played(tmp_path, play)


@pytest.mark.spec("missed-schedule", "type-run-status")
@pytest.mark.parametrize(
    ("late", "error"),
    [
        (0, None),
        (59, None),
        (61, "skipped: missed by 1 h"),
        (185, "skipped: missed by 3 h"),
        (1300, "skipped: missed by 21 h"),
    ],
)
def test_what_was_missed_fires_once_or_is_written_down(
    tmp_path: Path, late: int, error: str | None
) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        await services.schedules.add(ANNA, TASK)
        hand.turn(hours=1, minutes=late)
        (run,) = await scheduler.tick()
        assert (run.error, run.fire_at) == (error, "2026-01-31T09:00:00.000Z")
        assert (run.status, run.session_id is None) == (
            ("failed", True) if error else ("running", False)
        )
        assert await scheduler.tick() == []
        (task,) = await services.schedules.list_tasks(ANNA)
        assert task["next_run_at"] == "2026-02-01T09:00:00.000Z"

    played(tmp_path, play)


def test_after_downtime_only_the_newest_slot_counts(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        await services.schedules.add(ANNA, {**TASK, "cron": "*/10 * * * *"})
        hand.turn(days=400, minutes=3)
        (run,) = await scheduler.tick()
        assert (run.status, run.fire_at) == ("running", "2027-03-07T08:00:00.000Z")
        assert (await services.store.list_task_runs(ANNA)).total == 1

    played(tmp_path, play)


def test_none_begins_while_another_goes_on_unless_asked(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        await services.schedules.add(ANNA, {**TASK, "cron": "* * * * *"})
        other = await services.schedules.add(
            BEN, {**TASK, "cron": "* * * * *", "allow_overlap": True}
        )
        hand.turn(minutes=1)
        first = {run.task_id: run for run in await scheduler.tick()}
        hand.turn(minutes=1)
        second = {run.task_id: run for run in await scheduler.tick()}
        mine = next(name for name in first if name != other["id"])
        assert (second[mine].error, second[other["id"]].status) == (
            "skipped: the previous run is still in progress",
            "running",
        )
        assert first[mine].session_id
        await end_run(services, first[mine].session_id, "failed", "no key")
        hand.turn(minutes=1)
        assert [run.status for run in await scheduler.tick()] == ["running", "running"]
        page = await services.store.list_task_runs(ANNA)
        errors = [run.error for run in page.items]
        assert errors == [None, "skipped: the previous run is still in progress", "no key"]

    played(tmp_path, play)


def test_task_ends_when_it_expires_or_is_stopped(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        short = await services.schedules.add(
            ANNA, {**TASK, "cron": "* * * * *", "expires_at": "2026-01-31T08:02:30Z"}
        )
        fired = 0
        for _ in range(5):
            hand.turn(minutes=1)
            fired += len(await scheduler.tick())
        assert fired == 2
        assert (await services.schedules.get_task(ANNA, short["id"]))["next_run_at"] is None
        task = await services.schedules.add(ANNA, {**TASK, "cron": "* * * * *"})
        await services.schedules.update_task(ANNA, task["id"], {"enabled": False})
        hand.turn(minutes=5)
        assert await scheduler.tick() == []
        started = await services.schedules.update_task(ANNA, task["id"], {"enabled": True})
        assert started["next_run_at"] == "2026-01-31T08:11:00.000Z"

    played(tmp_path, play)


def test_a_session_that_cannot_be_written_is_the_error_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        for _ in range(3):
            await services.schedules.add(ANNA, TASK)
        fire, refused = services.store.fire_task, []

        async def once(firing: Firing) -> object:
            if firing.step is not None and not refused:
                refused.append(firing)
                raise StoreError("the disk is full", code="store.full")
            return await fire(firing)

        monkeypatch.setattr(services.store, "fire_task", once)
        hand.turn(hours=1)
        runs = await scheduler.tick()
        assert [(run.status, run.error) for run in runs].count(
            ("failed", "failed: the disk is full")
        ) == 1
        assert len(runs) == 3

    played(tmp_path, play)


def test_one_that_never_works_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        tasks = [await services.schedules.add(ANNA, TASK) for _ in range(3)]
        fire = services.store.fire_task

        async def broken(firing: Firing) -> object:
            if firing.task_id == tasks[0]["id"]:
                raise StoreError("no", code="store.sql")
            return await fire(firing)

        monkeypatch.setattr(services.store, "fire_task", broken)
        hand.turn(hours=1)
        with pytest.raises(StoreError):
            await scheduler.tick()
        assert (await services.store.list_task_runs(ANNA)).total == 2

    played(tmp_path, play)


def test_a_zone_that_is_gone_is_the_error_of_the_run(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        task = await services.schedules.add(ANNA, TASK)
        await services.store.change_task(
            ANNA, task["id"], {"timezone": "Gone/Zone"}, services.clock.now()
        )
        hand.turn(hours=1)
        (run,) = await scheduler.tick()
        assert run.error is not None
        assert run.error.startswith("skipped: timezone")
        assert await scheduler.tick() == []

    played(tmp_path, play)


async def eight_nodes(tmp_path: Path, stores: list[Store], hand: Hand) -> None:
    """Eight schedulers and a thousand tasks that are due at the same moment."""
    for number in range(1000):
        task = NewTask(
            id=f"task_{number}",
            title="Report",
            prompt="Write it",
            cron="0 9 * * *",
            timezone="UTC",
            next_fire="2026-01-31T09:00:00.000Z",
            created_at="2026-01-31T08:00:00.000Z",
        )
        await stores[0].add_task(ANNA if number % 2 else BEN, task)
    hand.turn(hours=1)
    nodes = [node(stores[number % len(stores)], tmp_path, hand)[1] for number in range(8)]
    taken = [run for runs in await asyncio.gather(*(each.tick() for each in nodes)) for run in runs]
    assert len(taken) == len({run.task_id for run in taken}) == 1000
    for owner in (ANNA, BEN):
        assert (await stores[0].sessions(owner)).total == 500
        assert (await stores[0].list_task_runs(owner)).total == 500
    assert await stores[0].check() == []


def test_eight_schedulers_take_a_thousand_slots_once(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        await eight_nodes(tmp_path, [services.store], hand)

    played(tmp_path, play)


@pytest.mark.full
def test_eight_schedulers_on_eight_nodes_take_a_thousand_slots_once(tmp_path: Path) -> None:
    url = new_postgres()

    async def whole() -> None:
        stores = [PostgresStore(url, tmp_path / "data", 2) for _ in range(8)]
        for name, role in ((ANNA, "owner"), (BEN, "user")):
            user = User(id=name, name=name, role=role, created_at="2026-01-01T00:00:00.000Z")  # type: ignore[arg-type]
            await stores[0].add_user(user)
        await eight_nodes(tmp_path, list[Store](stores), Hand())
        for store in stores:
            await store.close()

    asyncio.run(whole())


DAYS = [  # a day on which clocks go forward, one on which they go back; on Lord Howe Island by half an hour
    ("America/New_York", (2026, 3, 8)),
    ("America/New_York", (2026, 11, 1)),
    ("Europe/Berlin", (2026, 3, 29)),
    ("Europe/Berlin", (2026, 10, 25)),
    ("Australia/Lord_Howe", (2026, 10, 4)),
    ("Australia/Lord_Howe", (2026, 4, 5)),
    ("Africa/Cairo", (2026, 4, 24)),
    ("Africa/Cairo", (2026, 10, 30)),
    ("America/Santiago", (2026, 9, 6)),
    ("America/Santiago", (2026, 4, 5)),
]


@pytest.mark.parametrize(("zone", "date"), DAYS)
def test_a_day_with_a_change_of_the_clock_has_each_slot_once(
    tmp_path: Path, zone: str, date: tuple[int, int, int]
) -> None:
    start = datetime(*date, tzinfo=ZoneInfo(zone)).astimezone(UTC) - timedelta(minutes=3)
    end = (datetime(*date, tzinfo=ZoneInfo(zone)) + timedelta(days=1)).astimezone(UTC)

    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        lines = ["30 0 * * *", "30 1 * * *", "30 2 * * *", "*/30 * * * *"]
        made = [
            await services.schedules.add(
                ANNA, {**TASK, "cron": line, "timezone": zone, "allow_overlap": True}
            )
            for line in lines
        ]
        others = [scheduler, node(services.store, tmp_path, hand)[1]]
        while hand.moment < end - timedelta(seconds=1):
            for each in others:
                await each.tick()
            hand.turn(minutes=7)
        hand.moment = end - timedelta(seconds=1)
        await others[0].tick()
        page = await services.store.list_task_runs(ANNA, limit=1000)
        count = Counter(
            run.task_id
            for run in page.items
            if parse_timestamp(run.fire_at) >= start + timedelta(minutes=3)
        )
        half_hours = round((end - start - timedelta(minutes=3)).total_seconds() / 1800)
        assert [count[task["id"]] for task in made] == [1, 1, 1, half_hours]
        assert {run.status for run in page.items} == {"running"}

    played(tmp_path, play, Hand(start))


def test_scheduler_sleeps_until_a_task_is_due_or_changes(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        fired = asyncio.Event()
        services.runner.wake = fired.set  # type: ignore[method-assign]
        await scheduler.start()
        task = await services.schedules.add(ANNA, TASK)
        hand.turn(hours=1)
        await services.schedules.update_task(ANNA, task["id"], {"title": "Other"})
        await asyncio.wait_for(fired.wait(), 60)
        await scheduler.close()
        await scheduler.close()

    played(tmp_path, play)


def test_how_late_it_is() -> None:
    spans = [
        timedelta(seconds=5),
        timedelta(seconds=90),
        timedelta(hours=3, minutes=50),
        timedelta(days=2),
    ]
    assert [format_delay(late) for late in spans] == ["5 s", "1 min", "3 h", "2 d"]
