"""Commands that go on while the agent does other things: started by Bash, kept over its run, told
when they end."""

import asyncio
import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from open_token.errors import StoreError
from open_token.model.session_types import BackgroundTask, TaskStatus, decode, encode, to_builtins
from open_token.server.processes import follow
from open_token.server.refusals import busy, missing
from open_token.server.sandbox import Command
from open_token.server.workspace import Workspaces
from open_token.storage.files import write_whole

if TYPE_CHECKING:
    from open_token.server.services import Services

MOST_RUNNING = 8
MOST_SECONDS = 12 * 3600.0
_MOST_RUNNING_IN_ALL = 64
_MOST_KEPT = 100
_HALF = 1 << 20
"""Bytes of one of the two files between which a task's output alternates."""
_MOST_TAIL = 256 << 10


class Output:
    """The newest output of a task on disk: two files that take turns, so that it never grows
    without end."""

    def __init__(self, path: Path) -> None:
        self._paths = (path.with_suffix(".0"), path.with_suffix(".1"))
        self._size = 0

    def add(self, piece: bytes) -> None:
        """More output."""
        if self._size + len(piece) > _HALF:
            if self._size:
                os.replace(self._paths[1], self._paths[0])
            self._size = 0
        with open(self._paths[1], "ab") as out:
            out.write(piece)
        self._size += len(piece)

    def tail(self, lines: int) -> str:
        """The last lines."""
        data = b"".join(path.read_bytes() for path in self._paths if path.exists())[-_MOST_TAIL:]
        return "".join(data.decode("utf-8", "replace").splitlines(keepends=True)[-lines:])


class Tasks:
    """The tasks of all sessions: those that run here, and what is written down of the others."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._folders = Workspaces(services.config.data / "tasks")
        self._running: dict[str, asyncio.Task[None]] = {}
        self._alive: set[str] = set()
        """The tasks of this process, from before the first word written of them until after the
        last."""
        self._stopping: set[str] = set()

    async def begin(
        self, owner: str, session_id: str, tool_call_id: str, text: str, command: Command
    ) -> BackgroundTask:
        """Start a command that nobody waits for."""
        here = [task for task in await self.of(session_id) if task.status == "running"]
        if len(here) >= MOST_RUNNING or len(self._running) >= _MOST_RUNNING_IN_ALL:
            raise busy(
                f"{len(here)} commands of this session run already; stop one first",
                "too_many_tasks",
            )
        clock = self._services.clock
        task = BackgroundTask(
            id=clock.name("task"),
            session_id=session_id,
            tool_call_id=tool_call_id,
            command=text,
            status="running",
            started_at=clock.now(),
        )
        self._alive.add(task.id)
        try:
            await asyncio.to_thread(self._keep, task)
            await self._tell(owner, task)
        except BaseException:
            self._alive.discard(task.id)
            raise
        self._running[task.id] = asyncio.create_task(self._carry_out(owner, task, command))
        await asyncio.sleep(0)  # it has begun, so whoever stops it now finds its end written down
        return task

    async def of(self, session_id: str) -> list[BackgroundTask]:
        """The tasks of a session, newest first."""
        return await asyncio.to_thread(self._kept, session_id)

    async def one(self, session_id: str, task_id: str) -> BackgroundTask:
        """A task of a session."""
        for task in await self.of(session_id):
            if task.id == task_id:
                return task
        raise missing("task")

    async def tail(self, task: BackgroundTask, lines: int = 200) -> str:
        """The last lines that it wrote."""
        return await asyncio.to_thread(Output(self._path(task)).tail, lines)

    async def stop(self, session_id: str, task_id: str) -> BackgroundTask:
        """End a task with all that it started; one that has ended stays as it is."""
        task = await self.one(session_id, task_id)
        if running := self._running.get(task_id):
            self._stopping.add(task_id)
            running.cancel()
            await asyncio.wait([running])
            return await self.one(session_id, task_id)
        return task

    async def forget(self, session_id: str) -> None:
        """Stop all tasks of a session and forget them, as when it was deleted."""
        for task in await self.of(session_id):
            await self.stop(session_id, task.id)
        await asyncio.to_thread(self._folders.of(session_id).remove_all)

    async def close(self) -> None:
        """Stop everything."""
        running = dict(self._running)
        self._stopping |= running.keys()
        for work in running.values():
            work.cancel()
        if running:
            await asyncio.wait(running.values())

    async def _carry_out(self, owner: str, task: BackgroundTask, command: Command) -> None:
        output = Output(self._path(task))
        code: int | None = None
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                code = await follow(command, output.add, MOST_SECONDS)
        finally:
            status: TaskStatus = (
                "stopped" if task.id in self._stopping else "done" if code == 0 else "failed"
            )
            now = self._services.clock.now()
            ended = structs.replace(task, status=status, exit_code=code, finished_at=now)
            try:
                self._keep(ended)
            finally:
                self._running.pop(task.id, None)
                self._alive.discard(task.id)
                self._stopping.discard(task.id)
            self._services.workspaces.of(task.session_id).recount()
            await self._tell(owner, ended)

    async def _tell(self, owner: str, task: BackgroundTask) -> None:
        step = ("signal.sent", {"event": "task:updated", "payload": to_builtins(task)})
        with contextlib.suppress(StoreError):  # the session may be gone by now
            await self._services.journal.write(owner, task.session_id, lambda _: [step])

    def _path(self, task: BackgroundTask) -> Path:
        return self._folders.of(task.session_id).folder / task.id

    def _keep(self, task: BackgroundTask) -> None:
        self._folders.of(task.session_id).make()
        write_whole(self._path(task).with_suffix(".json"), encode(task))

    def _kept(self, session_id: str) -> list[BackgroundTask]:
        folder = self._folders.of(session_id).folder
        found = []
        for path in folder.glob("*.json") if folder.exists() else ():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(self._as_it_is(path))
        found.sort(key=lambda task: (task.started_at, task.id), reverse=True)
        for old in itertools.islice(found, _MOST_KEPT, None):
            for suffix in (".json", ".0", ".1"):
                self._path(old).with_suffix(suffix).unlink(missing_ok=True)
        return found[:_MOST_KEPT]

    def _as_it_is(self, path: Path) -> BackgroundTask:
        task = decode(path.read_bytes(), BackgroundTask)
        if task.status == "running" and task.id not in self._alive:
            task = decode(
                path.read_bytes(), BackgroundTask
            )  # it may have ended since the file was read
            if task.status == "running":
                return structs.replace(task, status="failed")  # the server ended before it did
        return task
