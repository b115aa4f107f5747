"""The writer thread: pending writes share one transaction, and callers wait for its commit."""

import asyncio
import queue
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from open_token.errors import StoreError
from open_token.server.store.errors import translate_error

MAX_BATCH = 512


class Job:
    """A function to run on the database, and the future of its result."""

    __slots__ = ("arguments", "function", "future", "loop")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        future: "Future[Any] | asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.future = future
        self.loop = loop


Outcome = tuple[Job, Any, Exception | None]


class Writer:
    """Runs functions of any thread and event loop one after the other on its own connection."""

    def __init__(self, db: sqlite3.Connection, folder: Path) -> None:
        self._db = db
        self._folder = folder
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._work, name="open-token-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """The number of pending writes."""
        return self._queue.qsize()

    def write(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function and wait for the commit."""
        future: Future[Any] = Future()
        self._put(Job(function, arguments, future, None))
        return future.result()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Run a function; the future of the running event loop is resolved after the commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(Job(function, arguments, future, loop))
        return future

    def close(self) -> None:
        """Finish pending writes, and stop."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._queue.put(None)
        self._thread.join()

    def _put(self, job: Job) -> None:
        with self._lock:
            if not self._is_open:
                raise StoreError(
                    "the store is closed", where=str(self._folder), code="store.closed"
                )
            self._queue.put(job)

    def _work(self) -> None:
        is_last = False
        while not is_last:
            batch = [self._queue.get()]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            is_last = batch[-1] is None
            jobs = [job for job in batch if job is not None]
            outcomes = self._run_batch(jobs)
            if outcomes is None:
                outcomes = []
                for job in jobs:
                    outcomes += self._run_batch([job]) or []
            self._resolve(outcomes)

    def _run_batch(self, jobs: Sequence[Job]) -> list[Outcome] | None:
        """Run jobs in one transaction; None when one of several failed and each must run alone."""
        db = self._db
        outcomes: list[Outcome] = []
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                changes = db.total_changes
                try:
                    outcomes.append((job, job.function(db, *job.arguments), None))
                except Exception as problem:
                    if not db.in_transaction or db.total_changes != changes:
                        _roll_back(db)
                        if len(jobs) == 1:
                            return [(job, None, problem)]
                        return None
                    # The job was refused before it changed anything: the others can go on.
                    outcomes.append((job, None, problem))
            db.execute("COMMIT")
        except Exception as problem:
            _roll_back(db)
            return [(job, None, problem) for job in jobs]
        return outcomes

    def _resolve(self, outcomes: Sequence[Outcome]) -> None:
        """Resolve the futures, with one wake-up for each event loop."""
        by_loop: defaultdict[asyncio.AbstractEventLoop | None, list[Outcome]] = defaultdict(list)
        for job, result, problem in outcomes:
            by_loop[job.loop].append(
                (job, result, problem and translate_error(problem, self._folder))
            )
        for loop, resolved in by_loop.items():
            if loop is None:
                _resolve_futures(resolved)
                continue
            try:
                loop.call_soon_threadsafe(_resolve_futures, resolved)
            except RuntimeError:
                continue  # the loop is closed: nobody waits for the results


def _resolve_futures(outcomes: Sequence[Outcome]) -> None:
    for job, result, problem in outcomes:
        if job.future.done():
            continue
        if problem is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(problem)


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        try:
            db.execute("ROLLBACK")
        except sqlite3.Error:
            return  # SQLite has rolled back by itself
