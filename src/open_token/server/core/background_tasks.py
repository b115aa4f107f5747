"""Background tasks: commands that keep running after the Bash tool has returned."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from open_token.errors import StoreError
from open_token.model.session_types import BackgroundTask, TaskStatus, decode, encode, to_builtins
from open_token.server.core.processes import LimitExceeded, run_to_end
from open_token.server.core.sandbox import Command
from open_token.server.core.workspace import Workspaces
from open_token.server.errors import conflict, not_found
from open_token.storage.files import write_atomic

if TYPE_CHECKING:
    from open_token.server.core.services import Services

MAX_RUNNING = 8
MAX_SECONDS = 12 * 3600.0
_MAX_RUNNING_TOTAL = 64
_MAX_KEPT = 100
_FILE_BYTES = 1 << 20
"""The size of each of the two files between which the output of a task alternates."""
_MAX_TAIL_BYTES = 256 << 10
_FILE_SUFFIXES = (".json", ".0", ".1")


class Output:
    """The latest output of a task on disk, in two files that are rotated."""

    def __init__(self, path: Path) -> None:
        self._previous = path.with_suffix(".0")
        self._current = path.with_suffix(".1")
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Append output."""
        if self._size + len(piece) > _FILE_BYTES:
            if self._size:
                os.replace(self._current, self._previous)
            self._size = 0
        with open(self._current, "ab") as out:
            out.write(piece)
        self._size += len(piece)

    def tail(self, lines: int) -> str:
        """Return the last lines."""
        data = b""
        for path in (self._previous, self._current):
            if path.exists():
                data += path.read_bytes()
        text = data[-_MAX_TAIL_BYTES:].decode("utf-8", "replace")
        return "".join(text.splitlines(keepends=True)[-lines:])


class BackgroundTasks:
    """The tasks of all sessions: those of this process, and the records of earlier ones."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._folders = Workspaces(services.config.data / "tasks")
        self._running: dict[str, asyncio.Task[None]] = {}
        self._alive: set[str] = set()
        """The tasks of this process, from before their first record until after their last."""
        self._stopping: set[str] = set()

    async def start(
        self, owner: str, session_id: str, tool_call_id: str, text: str, command: Command
    ) -> BackgroundTask:
        """Start a command in the background."""
        running = [task for task in await self.list_tasks(session_id) if task.status == "running"]
        if len(running) >= MAX_RUNNING or len(self._running) >= _MAX_RUNNING_TOTAL:
            raise conflict(
                f"{len(running)} commands of this session are running; stop one first",
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
            await asyncio.to_thread(self._save, task)
            await self._publish(owner, task)
        except BaseException:
            self._alive.discard(task.id)
            raise
        self._running[task.id] = asyncio.create_task(self._run(owner, task, command))
        # Let it start: cancelled before its first step, it would not record its end.
        await asyncio.sleep(0)
        return task

    async def list_tasks(self, session_id: str) -> list[BackgroundTask]:
        """Return the tasks of a session, newest first."""
        return await asyncio.to_thread(self._load_all, session_id)

    async def get(self, session_id: str, task_id: str) -> BackgroundTask:
        """Return a task of a session."""
        for task in await self.list_tasks(session_id):
            if task.id == task_id:
                return task
        raise not_found("task")

    async def tail(self, task: BackgroundTask, lines: int = 200) -> str:
        """Return the last lines of a task's output."""
        return await asyncio.to_thread(Output(self._path(task)).tail, lines)

    async def stop(self, session_id: str, task_id: str) -> BackgroundTask:
        """Stop a task and everything that it started; a finished one stays as it is."""
        task = await self.get(session_id, task_id)
        running = self._running.get(task_id)
        if running is None:
            return task
        self._stopping.add(task_id)
        running.cancel()
        await asyncio.wait([running])
        return await self.get(session_id, task_id)

    async def remove_session(self, session_id: str) -> None:
        """Stop and remove all tasks of a session, as when it is deleted."""
        for task in await self.list_tasks(session_id):
            await self.stop(session_id, task.id)
        await asyncio.to_thread(self._folders.get(session_id).remove_all)

    async def close(self) -> None:
        """Stop all tasks."""
        running = dict(self._running)
        self._stopping |= running.keys()
        for work in running.values():
            work.cancel()
        if running:
            await asyncio.wait(running.values())

    async def _run(self, owner: str, task: BackgroundTask, command: Command) -> None:
        output = Output(self._path(task))
        code: int | None = None
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                code = await run_to_end(command, output.add, MAX_SECONDS)
        except LimitExceeded as problem:
            output.add(f"\nstopped: {problem}\n".encode())
        finally:
            ended = structs.replace(
                task,
                status=self._final_status(task, code),
                exit_code=code,
                finished_at=self._services.clock.now(),
            )
            try:
                self._save(ended)
            finally:
                self._running.pop(task.id, None)
                self._alive.discard(task.id)
                self._stopping.discard(task.id)
            self._services.workspaces.get(task.session_id).recount()
            await self._publish(owner, ended)

    def _final_status(self, task: BackgroundTask, code: int | None) -> TaskStatus:
        if task.id in self._stopping:
            return "stopped"
        return "done" if code == 0 else "failed"

    async def _publish(self, owner: str, task: BackgroundTask) -> None:
        step = ("signal.sent", {"event": "task:updated", "payload": to_builtins(task)})
        with contextlib.suppress(StoreError):  # the session may have been deleted
            await self._services.journal.write(owner, task.session_id, lambda _: [step])

    def _path(self, task: BackgroundTask) -> Path:
        return self._folders.get(task.session_id).folder / task.id

    def _save(self, task: BackgroundTask) -> None:
        self._folders.get(task.session_id).make()
        write_atomic(self._path(task).with_suffix(".json"), encode(task))

    def _load_all(self, session_id: str) -> list[BackgroundTask]:
        """Load the tasks of a session; the oldest ones are deleted above the limit."""
        folder = self._folders.get(session_id).folder
        if not folder.exists():
            return []
        tasks = []
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                tasks.append(self._load(path))
        tasks.sort(key=lambda task: (task.started_at, task.id), reverse=True)
        for old in tasks[_MAX_KEPT:]:
            for suffix in _FILE_SUFFIXES:
                self._path(old).with_suffix(suffix).unlink(missing_ok=True)
        return tasks[:_MAX_KEPT]

    def _load(self, path: Path) -> BackgroundTask:
        task = decode(path.read_bytes(), BackgroundTask)
        if task.status == "running" and task.id not in self._alive:
            # It may have ended between reading the file and looking at `_alive`.
            task = decode(path.read_bytes(), BackgroundTask)
            if task.status == "running":
                # The server stopped before the task did.
                return structs.replace(task, status="failed")
        return task
