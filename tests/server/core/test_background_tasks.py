"""Background tasks: they go on, are reported, are stopped, and are known after a restart."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.model.session_types import BackgroundTask
from open_token.server.config import ServerConfig
from open_token.server.core import background_tasks
from open_token.server.core.background_tasks import Output
from open_token.server.core.sandbox import Command, CommandLimits, Sandbox
from open_token.server.errors import ApiError
from open_token.server.lifecycle import run_services
from open_token.storage.files import write_atomic


def command(shop: ToolServer, script: str) -> Command:
    return Sandbox(shell="/bin/bash").command(
        shop.workspace.make(), script, {}, 60, CommandLimits(disk_bytes=1 << 20)
    )


async def begin(shop: ToolServer, script: str) -> BackgroundTask:
    return await shop.services.tasks.start(
        shop.owner, shop.session_id, "call_1", script, command(shop, script)
    )


async def ended(shop: ToolServer, task: BackgroundTask) -> BackgroundTask:
    while (now := await shop.services.tasks.get(shop.session_id, task.id)).status == "running":
        await asyncio.sleep(0.01)
    return now


@pytest.mark.spec("task-updated-event", "type-background-task", "type-task-status")
def test_a_task_ends_and_is_reported(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        good, bad = await begin(shop, "echo one; echo two; echo three"), await begin(shop, "exit 3")
        done, failed = await ended(shop, good), await ended(shop, bad)
        assert (done.status, done.exit_code, failed.status, failed.exit_code) == (
            "done",
            0,
            "failed",
            3,
        )
        assert done.finished_at
        tasks = shop.services.tasks
        assert await tasks.tail(done) == "one\ntwo\nthree\n"
        assert await tasks.tail(done, 1) == "three\n"
        result = [
            one["status"] for one in await shop.signals("task:updated") if one["id"] == good.id
        ]
        assert result[0] == "running"
        assert {task.id for task in await tasks.list_tasks(shop.session_id)} == {good.id, bad.id}

    run_with_tools(tmp_path, do)


@pytest.mark.spec("background-task-routes")
def test_a_task_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        tasks = shop.services.tasks
        task = await begin(shop, "echo begun; sleep 300")
        while not await tasks.tail(task):
            await asyncio.sleep(0.01)
        stopped = await tasks.stop(shop.session_id, task.id)
        assert (stopped.status, stopped.exit_code) == ("stopped", None)
        assert (await tasks.stop(shop.session_id, task.id)).status == "stopped"
        assert [one["status"] for one in await shop.signals("task:updated")] == [
            "running",
            "stopped",
        ]
        with pytest.raises(ApiError, match="no such task"):
            await tasks.get("sess_2", task.id)

    run_with_tools(tmp_path, do)


def test_tasks_end_with_the_server_and_are_known_after_it(tmp_path: Path) -> None:
    async def first(shop: ToolServer) -> BackgroundTask:
        return await begin(shop, "sleep 300")

    async def crashed(shop: ToolServer) -> None:
        folder = tmp_path / "data" / "tasks" / "sess_1"
        (folder / f"{task.id}.json").write_bytes(
            (folder / f"{task.id}.json").read_bytes().replace(b'"stopped"', b'"running"')
        )
        (folder / "broken.json").write_bytes(b"{")
        assert [one.status for one in await shop.services.tasks.list_tasks("sess_1")] == ["failed"]
        await shop.services.tasks.remove_session("sess_1")
        assert not folder.exists()

    task = run_with_tools(tmp_path, first)
    kept = tmp_path / "data" / "tasks" / "sess_1" / f"{task.id}.json"
    assert b'"stopped"' in kept.read_bytes()

    async def again() -> None:
        async with run_services(ServerConfig(data=tmp_path / "data"), {}) as services:
            await crashed(ToolServer(services, None, None, "", "sess_1", {}))  # type: ignore[arg-type]

    asyncio.run(again())


def test_a_task_is_never_taken_for_lost_while_its_end_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(path: Path, data: bytes) -> None:
        time.sleep(0.05)
        write_atomic(path, data)
        time.sleep(0.05)

    monkeypatch.setattr(background_tasks, "write_atomic", slowly)
    seen: set[str] = set()
    over = threading.Event()

    async def do(shop: ToolServer) -> None:
        def look() -> None:
            while not over.is_set():
                seen.update(
                    task.status
                    for task in asyncio.run(shop.services.tasks.list_tasks(shop.session_id))
                )

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            await ended(shop, await begin(shop, "true"))
        finally:
            over.set()
            await asyncio.to_thread(watcher.join)

    run_with_tools(tmp_path, do)
    assert "failed" not in seen


def test_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "MAX_RUNNING", 1)

    async def do(shop: ToolServer) -> None:
        await begin(shop, "sleep 300")
        with pytest.raises(ApiError, match="stop one first"):
            await begin(shop, "sleep 300")

    run_with_tools(tmp_path, do)


def test_old_ones_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "_MAX_KEPT", 2)

    async def do(shop: ToolServer) -> None:
        for _ in range(4):
            await ended(shop, await begin(shop, "true"))
        assert len(await shop.services.tasks.list_tasks(shop.session_id)) == 2
        assert len(list((tmp_path / "data" / "tasks" / "sess_1").glob("*.json"))) == 2

    run_with_tools(tmp_path, do)


def test_a_session_that_is_gone_does_not_matter(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        task = await begin(shop, "sleep 300")
        await shop.services.store.delete_session(shop.owner, shop.session_id)
        shop.services.journal.evict(shop.session_id)
        assert (await shop.services.tasks.stop(shop.session_id, task.id)).status == "stopped"

    run_with_tools(tmp_path, do)


def test_output_is_bounded_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "_FILE_BYTES", 100)
    output = Output(tmp_path / "task_1")
    for number in range(1000):
        output.add(b"line %d\n" % number)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 200
    assert output.tail(2) == "line 998\nline 999\n"
    assert len(output.tail(1000).splitlines()) > 8
