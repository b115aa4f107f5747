"""Tasks as people set them up: what is refused, what changes when they are due, what the calendar
shows."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from helpers.server.scheduling import ANNA, BEN, Hand, scheduling
from open_token.server.core import schedules
from open_token.server.core.scheduler import Scheduler
from open_token.server.core.services import Services
from open_token.server.errors import ApiError

TASK = {"title": "Report", "prompt": "Write it", "cron": "0 9 * * *"}


def played(
    tmp_path: Path, play: Callable[[Services, Scheduler, Hand], Coroutine[Any, Any, None]]
) -> None:
    async def whole() -> None:
        async with scheduling(tmp_path) as (services, scheduler, hand):
            await play(services, scheduler, hand)

    asyncio.run(whole())


def test_a_task_comes_back_with_when_it_is_due(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        given = {
            **TASK,
            "timezone": "America/New_York",
            "expires_at": "2027-01-01T00:00:00+01:00",
        }
        task = await services.schedules.add(ANNA, given)
        assert task == {
            "id": task["id"],
            "title": "Report",
            "prompt": "Write it",
            "cron": "0 9 * * *",
            "timezone": "America/New_York",
            "enabled": True,
            "expires_at": "2026-12-31T23:00:00.000Z",
            "skip_confirmations": False,
            "model": None,
            "created_at": "2026-01-31T08:00:00.000Z",
            "updated_at": None,
            "allow_overlap": False,
            "next_run_at": "2026-01-31T14:00:00.000Z",
        }
        assert await services.schedules.get_task(ANNA, task["id"]) == task
        assert await services.schedules.list_tasks(BEN) == []

    played(tmp_path, play)


BAD = [
    ([], "object"),
    ({}, "title is missing"),
    ({**TASK, "prompt": " "}, "prompt: must have 1 to 100000"),
    ({**TASK, "title": "x" * 201}, "title: must have 1 to 200"),
    ({**TASK, "title": "a\0b"}, "title: contains characters"),
    ({**TASK, "prompt": "\ud800"}, "prompt: contains characters"),
    ({**TASK, "cron": 5}, "cron: expected"),
    ({**TASK, "cron": "61 * * * *"}, "cron: bad minute"),
    ({**TASK, "cron": "@daily"}, "five fields"),
    ({**TASK, "timezone": "Mars/Olympus"}, "timezone: unknown"),
    ({**TASK, "expires_at": "soon"}, "expires_at: timestamp"),
    ({**TASK, "expires_at": "2026-01-31T08:00:00"}, "expires_at: timestamp"),
    ({**TASK, "enabled": "yes"}, "enabled: expected"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_what_makes_no_sense_is_refused_in_words(tmp_path: Path, given: Any, words: str) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        with pytest.raises(ApiError) as caught:
            await services.schedules.add(ANNA, given)
        assert (caught.value.status, words in caught.value.detail) == (422, True), (
            caught.value.detail
        )
        assert await services.schedules.list_tasks(ANNA) == []

    played(tmp_path, play)


def test_a_change_moves_when_it_is_due(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        task = await services.schedules.add(ANNA, TASK)
        change = services.schedules.update_task
        assert (await change(ANNA, task["id"], {"cron": "0 10 * * *"}))[
            "next_run_at"
        ] == "2026-01-31T10:00:00.000Z"
        assert (await change(ANNA, task["id"], {"timezone": "Asia/Tokyo"}))[
            "next_run_at"
        ] == "2026-02-01T01:00:00.000Z"
        assert (await change(ANNA, task["id"], {"enabled": False}))["next_run_at"] is None
        assert (await change(ANNA, task["id"], {"enabled": True}))[
            "next_run_at"
        ] == "2026-02-01T01:00:00.000Z"
        assert (await change(ANNA, task["id"], {"expires_at": "2026-02-01"}))["next_run_at"] is None
        assert (await change(ANNA, task["id"], {"expires_at": None}))[
            "next_run_at"
        ] == "2026-02-01T01:00:00.000Z"
        assert (await change(ANNA, task["id"], {"allow_overlap": True}))["allow_overlap"] is True
        before = await services.schedules.get_task(ANNA, task["id"])
        with pytest.raises(ApiError):
            await change(ANNA, task["id"], {"title": "New", "cron": "x"})
        assert await change(ANNA, task["id"], {"id": "other", "next_run_at": None}) == before

    played(tmp_path, play)


def test_another_user_s_is_not_there(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        name = (await services.schedules.add(ANNA, TASK))["id"]
        tried = [
            services.schedules.get_task(BEN, name),
            services.schedules.update_task(BEN, name, {"title": "x"}),
            services.schedules.delete(BEN, name),
            services.schedules.run_now(BEN, name),
            services.schedules.list_runs(BEN, name, 10, 0),
        ]
        for answer in await asyncio.gather(*tried, return_exceptions=True):
            assert isinstance(answer, ApiError)
            assert answer.status == 404

    played(tmp_path, play)


def test_started_by_hand_as_often_as_one_likes(tmp_path: Path) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        task = await services.schedules.add(ANNA, {**TASK, "enabled": False})
        runs = [await services.schedules.run_now(ANNA, task["id"]) for _ in range(3)]
        assert len({run["session_id"] for run in runs}) == 3
        assert {run["status"] for run in runs} == {"running"}
        assert (await services.schedules.list_runs(ANNA, task["id"], 2, 0))["total"] == 3

    played(tmp_path, play)


@pytest.mark.spec("scheduled-task-calendar")
def test_the_calendar_shows_what_ran_and_what_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(services: Services, scheduler: Scheduler, hand: Hand) -> None:
        daily = await services.schedules.add(ANNA, {**TASK, "expires_at": "2026-02-02T12:00:00Z"})
        await services.schedules.add(ANNA, {**TASK, "title": "Twice", "cron": "0 8,20 * * *"})
        await services.schedules.add(ANNA, {**TASK, "enabled": False})
        hand.turn(hours=2)
        await scheduler.tick()
        shown = await services.schedules.build_calendar(
            ANNA, "2026-01-31", "2026-02-03T00:00:00 00:00"
        )
        assert [(item["title"], [at[5:16] for at in item["occurrences"]]) for item in shown] == [
            ("Report", ["01-31T09:00", "02-01T09:00", "02-02T09:00"]),
            (
                "Twice",
                ["01-31T20:00", "02-01T08:00", "02-01T20:00", "02-02T08:00", "02-02T20:00"],
            ),
        ]
        assert shown[0]["task_id"] == daily["id"]
        monkeypatch.setattr(schedules, "MAX_CALENDAR_ITEMS", 5)
        cut = await services.schedules.build_calendar(ANNA, "2026-01-31", "2026-12-31")
        assert sum(len(item["occurrences"]) for item in cut) == 5
        for since, until in (
            ("x", "2026-01-31"),
            ("2026-02-01", "2026-01-31"),
            ("2026-01-01", "2099-01-01"),
        ):
            with pytest.raises(ApiError):
                await services.schedules.build_calendar(ANNA, since, until)

    played(tmp_path, play)
