"""Large transfers in a process: the same results as in a thread, an end with the one who waits, and
a limit of memory."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.server.server_client import ServerClient, run_with_server
from open_token.server.config import Limits
from open_token.server.errors import ApiError
from open_token.server.transfers import transfer
from open_token.server.transfers.jobs import Jobs
from open_token.server.transfers.process import IS_SUPPORTED, TransferProcess
from open_token.server.transfers.tasks import PreviewTask
from open_token.server.transfers.transfer import PENDING_KEY

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "tests" / "golden" / "session_server" / "turns" / "expected.json"
pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="transfers run in threads here")


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every transfer in a process, however small it is."""
    monkeypatch.setattr(transfer, "_LARGE_BYTES", 0)


async def send_file(ask: ServerClient, path: Path, route: str = "import", **fields: str) -> Any:
    with path.open("rb") as stream:
        return await ask(
            "POST", f"/api/sessions/{route}", files={"file": (path.name, stream)}, data=fields
        )


async def transfer_all(ask: ServerClient) -> list[Any]:
    """Preview a file, import it and export the session; gives what must not depend on the way."""
    preview = (await send_file(ask, EXAMPLE, "preview-import")).json()
    imported = await send_file(ask, EXAMPLE, name="Chosen")
    assert imported.status_code == 200, imported.text
    session_id = imported.json()["session_id"]
    assert session_id not in ask.services.journal._cache
    entries = await ask.services.store.read_log(ask.owner, session_id, 0, 10_000)
    turns = await ask.services.store.turns(ask.owner, session_id, whole_tree=True)
    name = session_id.removeprefix("sess_").encode()

    def mask(data: bytes) -> bytes:
        return data.replace(name, b"ID").replace(ask.owner.encode(), b"OWNER")

    exported = []
    for form in ("json", "ndjson", "zip"):
        words = f"format={form}&redact=none&integrity=none&exported_at=omit"
        answer = await ask("GET", f"/api/sessions/{session_id}/export?{words}")
        assert answer.status_code == 200, answer.text
        exported.append(mask(answer.content) if form != "zip" else answer.content[:4])
    result = mask(msgspec.json.encode([[entry.kind, entry.data] for entry in entries]))
    rows = [(turn.sequence, turn.parent_id is None, turn.text) for turn in turns]
    return [preview, result, rows, exported]


def test_a_process_gives_what_a_thread_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_thread = run_with_server(tmp_path / "thread", transfer_all)
    monkeypatch.setattr(transfer, "_LARGE_BYTES", 0)
    assert run_with_server(tmp_path / "process", transfer_all) == in_thread


@pytest.mark.usefixtures("in_processes")
def test_failures_are_those_of_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"messages": [')

    async def test(ask: ServerClient) -> Any:
        await ask.services.journal.create(ask.owner, {"id": "sess_empty"})
        return (
            await send_file(ask, path),
            await ask("GET", "/api/sessions/sess_empty/export"),
            await ask("GET", "/api/sessions/sess_empty/export?redact=nothing"),
            (await ask.services.store.sessions(ask.owner)).total,
            await ask.services.store.setting(PENDING_KEY),
        )

    broken, empty, option, total, pending = run_with_server(tmp_path / "data", test)
    assert broken.status_code == 422
    assert str(tmp_path) not in broken.text
    assert empty.json() == {"detail": "the session is empty", "code": "input.no-events"}
    assert option.status_code == 422
    assert (total, pending) == (1, None)


@pytest.mark.usefixtures("in_processes")
def test_what_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"m{number}"} for number in range(30_000)]
    path = tmp_path / "many.json"
    path.write_bytes(msgspec.json.encode({"model": "demo", "messages": messages}))

    async def test(ask: ServerClient) -> Any:
        answer = await send_file(ask, path)
        return answer, (await ask.services.store.sessions(ask.owner)).total

    limits = Limits(transfer_bytes=64 << 20)
    answer, total = run_with_server(tmp_path / "data", test, limits=limits)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "limits.transfer_bytes" in answer.json()["detail"]
    assert total == 0


def test_a_process_ends_with_the_one_who_waits(tmp_path: Path) -> None:
    """A preview of a pipe that nobody writes to would wait forever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task = PreviewTask(path=str(pipe), limits=Limits(), now="", conversation=None, reader=None)

    async def test() -> None:
        async with TransferProcess.open(task, 1 << 30) as process:
            child = process._process
            waiting = asyncio.create_task(process.read_result())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert child.returncode == -signal.SIGKILL

    asyncio.run(asyncio.wait_for(test(), 60))


class _WaitingProcess:
    """A process that gives one result, and no more before it is killed."""

    def __init__(self) -> None:
        self.killed = asyncio.Event()
        self.is_left = False
        self._count = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["_WaitingProcess"]:
        try:
            yield self
        finally:
            self.is_left = True

    def kill(self) -> None:
        self.killed.set()

    async def read_result(self) -> str | None:
        self._count += 1
        if self._count == 1:
            return "first"
        await self.killed.wait()
        raise ApiError(413, "killed")


def test_a_server_that_stops_kills_its_processes() -> None:
    async def test() -> None:
        jobs = Jobs(60, threads=1)
        process = _WaitingProcess()
        results = jobs.run_process("anna", process.open())
        assert await anext(results) == "first"
        asyncio.get_running_loop().call_soon(jobs.close)
        with pytest.raises(ApiError) as caught:
            await anext(results)
        assert caught.value.code == "stopping"
        assert process.is_left

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_process_counts_as_a_thread_of_its_person() -> None:
    async def test() -> None:
        jobs = Jobs(60, threads=2)
        process = _WaitingProcess()
        results = jobs.run_process("anna", process.open())
        assert await anext(results) == "first"
        more = asyncio.create_task(jobs.run("anna", lambda check: "second"))
        assert await jobs.run("ben", lambda check: "of another") == "of another"
        assert not more.done()
        await results.aclose()
        assert process.is_left
        assert await more == "second"
        jobs.close()

    asyncio.run(asyncio.wait_for(test(), 60))
