"""Long work in threads: a share for everybody, and an end when nobody waits for it."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from helpers.server.server_client import ServerClient, run_with_server
from open_token.server.config import Limits
from open_token.server.errors import ApiError
from open_token.server.transfers import tasks
from open_token.server.transfers.jobs import Checkpoint, Jobs, StoppedError


class EndlessWork:
    """Work that only its checkpoint ends."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()

    def __call__(self, check: Checkpoint) -> None:
        self.begun.set()
        try:
            while True:
                check()
                time.sleep(0.002)
        finally:
            self.ended.set()


async def wait_for(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_work_gives_its_result_or_its_error() -> None:
    async def scenario() -> None:
        jobs = Jobs(60)
        assert await jobs.run("anna", lambda check: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await jobs.run("anna", lambda check: 1 // 0)
        jobs.close()

    run(scenario())


def test_a_job_ends_when_its_caller_is_cancelled() -> None:
    async def scenario() -> None:
        jobs = Jobs(60, threads=1)
        endless = EndlessWork()
        task = asyncio.create_task(jobs.run("anna", endless))
        await wait_for(endless.begun)
        task.cancel()
        await wait_for(endless.ended)
        assert await jobs.run("anna", lambda check: "free again") == "free again"
        jobs.close()

    run(scenario())


def test_a_job_ends_when_its_time_is_up() -> None:
    async def scenario() -> None:
        jobs = Jobs(0.05)
        endless = EndlessWork()
        with pytest.raises(ApiError) as caught:
            await jobs.run("anna", endless)
        assert (caught.value.status, caught.value.code) == (503, "too_slow")
        await wait_for(endless.ended)
        jobs.close()

    run(scenario())


def test_jobs_end_when_the_server_stops() -> None:
    async def scenario() -> None:
        jobs = Jobs(60, threads=2)
        works = [EndlessWork() for _ in range(3)]
        tasks = [asyncio.create_task(jobs.run("anna", work)) for work in works]
        await wait_for(works[0].begun)
        jobs.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [getattr(result, "code", result) for result in results] == ["stopping"] * 3
        with pytest.raises(ApiError):
            await jobs.run("anna", lambda check: 1)
        assert not works[2].begun.is_set()

    run(scenario())


def test_one_person_cannot_take_all_threads() -> None:
    async def scenario() -> None:
        jobs = Jobs(60, threads=4)
        works = [EndlessWork() for _ in range(20)]
        tasks = [asyncio.create_task(jobs.run("anna", work)) for work in works]
        await wait_for(works[1].begun)
        assert await jobs.run("ben", lambda check: "done") == "done"
        assert [work.begun.is_set() for work in works] == [True] * 2 + [False] * 18
        jobs.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(scenario())


def test_the_person_with_the_fewest_jobs_is_next() -> None:
    async def scenario() -> None:
        jobs = Jobs(60, threads=2)
        order: list[str] = []
        first, second = EndlessWork(), EndlessWork()
        running = [
            asyncio.create_task(jobs.run("anna", first)),
            asyncio.create_task(jobs.run("ben", second)),
        ]
        await wait_for(first.begun)
        await wait_for(second.begun)
        waiting = [
            asyncio.create_task(jobs.run(name, lambda check, name=name: order.append(name)))
            for name in ("anna", "anna", "carl")
        ]
        await asyncio.sleep(0)
        running[1].cancel()
        await asyncio.wait(waiting[2:])
        assert order == ["carl"]
        running[0].cancel()
        await asyncio.gather(*waiting)
        assert order == ["carl", "anna", "anna"]
        jobs.close()

    run(scenario())


def test_who_waits_and_leaves_takes_no_thread() -> None:
    async def scenario() -> None:
        jobs = Jobs(60, threads=1)
        endless = EndlessWork()
        task = asyncio.create_task(jobs.run("anna", endless))
        await wait_for(endless.begun)
        gone = asyncio.create_task(jobs.run("ben", lambda check: 1))
        await asyncio.sleep(0)
        gone.cancel()
        task.cancel()
        await asyncio.wait([gone, task])
        assert await jobs.run("carl", lambda check: 3) == 3
        jobs.close()

    run(scenario())


def replace_export(monkeypatch: pytest.MonkeyPatch) -> EndlessWork:
    endless = EndlessWork()
    monkeypatch.setattr(
        tasks, "export", lambda source, out, context, reader: endless(context.checkpoint)
    )
    return endless


def test_an_export_ends_when_its_client_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = replace_export(monkeypatch)

    async def test(ask: ServerClient) -> None:
        await ask.create_session()
        messages: list[Any] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await wait_for(endless.begun)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/api/sessions/sess_1/export",
            "raw_path": b"/api/sessions/sess_1/export",
            "query_string": b"format=json",
            "headers": [(b"authorization", f"Bearer {ask.keys['owner']}".encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        await ask._transport.app(scope, receive, send)
        await wait_for(endless.ended)

    run_with_server(tmp_path, test)


def test_an_export_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = replace_export(monkeypatch)

    async def test(ask: ServerClient) -> None:
        await ask.create_session()
        answer = await ask("GET", "/api/sessions/sess_1/export", params={"format": "json"})
        assert (answer.status_code, answer.json()["code"]) == (503, "too_slow")
        await wait_for(endless.ended)

    run_with_server(tmp_path, test, limits=Limits(transfer_seconds=1))


@pytest.mark.parametrize("path", ["import", "preview-import"])
def test_a_reader_is_ended_between_batches_of_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Also where a reader or the import survives every failure of a file."""
    reached = []

    def stop(self: Jobs, owner: str, work: Any) -> Any:
        count = 0

        def check() -> None:
            nonlocal count
            count += 1
            reached.append(count)
            if count == 3:
                raise StoppedError

        return self_run(self, owner, lambda _: work(check))

    self_run = Jobs.run
    monkeypatch.setattr(Jobs, "run", stop)
    lines = [f'{{"role": "user", "content": "line {number}"}}' for number in range(1000)]
    document = "\n".join(lines)

    async def test(ask: ServerClient) -> None:
        form = {"files": {"file": ("a.jsonl", document.encode())}}
        answer = await ask("POST", f"/api/sessions/{path}", **form)
        assert (answer.status_code, answer.json()["code"]) == (503, "stopping"), answer.text
        assert reached == [1, 2, 3]

    run_with_server(tmp_path, test)
