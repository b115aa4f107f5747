"""The routes of scheduled tasks, as a client calls them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from helpers.server.scheduling import ANNA, BEN, scheduling
from open_token.server.http.app import build_app

TASK = {"title": "Report", "prompt": "Write it", "cron": "0 9 * * *", "timezone": "Europe/Berlin"}
URL = "/api/scheduled-tasks"
Call = Callable[..., Awaitable[httpx.Response]]


def played(
    tmp_path: Path, play: Callable[[Call], Awaitable[None]], scope: str = "full", user: str = ANNA
) -> None:
    async def whole() -> None:
        async with scheduling(tmp_path) as (services, _, _):
            _, key = await services.store.add_key(user, "test", scope, services.clock.now())  # type: ignore[arg-type]
            transport = httpx.ASGITransport(build_app(services))
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://test", headers=headers
            ) as client:
                await play(client.request)

    asyncio.run(whole())


@pytest.mark.spec("scheduled-task-routes")
def test_tasks_are_listed_in_parts(tmp_path: Path) -> None:
    async def play(call: Call) -> None:
        made = [
            (await call("POST", URL, json={**TASK, "title": f"number {n}"})).json()["id"]
            for n in range(3)
        ]
        page = (await call("GET", URL, params={"limit": 1, "offset": 1})).json()
        assert (
            [item["id"] for item in page["items"]],
            page["total"],
            page["limit"],
            page["offset"],
        ) == (
            [made[1]],
            3,
            1,
            1,
        )
        assert (await call("GET", URL, params={"limit": "x"})).status_code == 422

    played(tmp_path, play)


@pytest.mark.spec(
    "scheduled-task-routes",
    "scheduled-task-control",
    "type-scheduled-task",
    "type-scheduled-task-run",
    "type-run-status",
)
def test_the_life_of_a_task(tmp_path: Path) -> None:
    async def play(call: Call) -> None:
        made = await call("POST", URL, json=TASK)
        assert (made.status_code, made.json()["next_run_at"]) == (201, "2026-02-01T08:00:00.000Z")
        place = f"{URL}/{made.json()['id']}"
        assert (await call("GET", place)).json() == made.json()
        assert (await call("GET", URL)).json() == [made.json()]
        assert (await call("PATCH", place, json={"title": "Other"})).json()["title"] == "Other"
        assert (await call("POST", f"{place}/stop")).json()["enabled"] is False
        assert (await call("POST", f"{place}/start")).json()["enabled"] is True
        ran = await call("POST", f"{place}/run")
        assert (ran.status_code, ran.json()["status"]) == (201, "running")
        runs = (await call("GET", f"{place}/runs")).json()
        assert runs == [ran.json()]
        page = (await call("GET", f"{place}/runs?limit=1")).json()
        assert page == {"items": runs, "total": 1, "limit": 1, "offset": 0}
        shown = (
            await call("GET", f"{URL}/calendar", params={"from": "2026-01-31", "to": "2026-02-03"})
        ).json()
        (item,) = shown
        assert (item["task_id"], item["title"]) == (made.json()["id"], "Other")
        assert len(item["occurrences"]) == 3
        deleted = await call("DELETE", place)
        assert (deleted.status_code, deleted.content) == (204, b"")
        for method, url in (
            ("GET", place),
            ("DELETE", place),
            ("POST", f"{place}/run"),
            ("GET", f"{place}/runs"),
        ):
            answer = await call(method, url)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")

    played(tmp_path, play)


@pytest.mark.spec("scheduled-task-routes")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'"x"',
        b'{"title":"a","prompt":"b","cron":"x"}',
        b'{"title":"a","prompt":"b","cron":"0 9 * * *","timezone":"No/Where"}',
        b'{"title":"a","prompt":"\\ud800","cron":"0 9 * * *"}',
    ],
)
def test_a_bad_body_is_a_422(tmp_path: Path, body: bytes) -> None:
    async def play(call: Call) -> None:
        answer = await call("POST", URL, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert set(answer.json()) == {"detail", "code"}

    played(tmp_path, play)


@pytest.mark.spec("scheduled-task-calendar")
def test_a_calendar_needs_its_ends(tmp_path: Path) -> None:
    async def play(call: Call) -> None:
        for query in ("", "?from=2026-01-01", "?from=x&to=y", "?from=2026-02-01&to=2026-01-01"):
            assert (await call("GET", f"{URL}/calendar{query}")).status_code == 422

    played(tmp_path, play)


@pytest.mark.spec("scheduled-task-routes")
def test_a_key_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    async def play(call: Call) -> None:
        for method, url in (
            ("POST", URL),
            ("PATCH", f"{URL}/x"),
            ("DELETE", f"{URL}/x"),
            ("POST", f"{URL}/x/run"),
            ("POST", f"{URL}/x/start"),
            ("POST", f"{URL}/x/stop"),
        ):
            assert (await call(method, url, json=TASK)).status_code == 403
        assert (await call("GET", URL)).json() == []
        assert (await call("GET", URL, headers={"Authorization": ""})).status_code == 401

    played(tmp_path, play, "read", BEN)


def test_openapi_shows_examples(tmp_path: Path) -> None:
    async def play(call: Call) -> None:
        page: dict[str, Any] = (await call("GET", "/openapi.json")).json()
        post = page["paths"][URL]["post"]
        assert (
            "cron"
            in post["requestBody"]["content"]["application/json"]["examples"]["weekdays"]["value"]
        )
        assert post["responses"]["201"]["content"]["application/json"]["example"]["id"].startswith(
            "task_"
        )
        assert [name for name in page["paths"] if name.startswith(URL)] == [
            URL,
            f"{URL}/calendar",
            f"{URL}/{{task_id}}",
            f"{URL}/{{task_id}}/start",
            f"{URL}/{{task_id}}/stop",
            f"{URL}/{{task_id}}/run",
            f"{URL}/{{task_id}}/runs",
        ]

    played(tmp_path, play)
