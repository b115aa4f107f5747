"""One thread that writes: what waits is written in one transaction, and everybody hears of it after
the commit."""

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
from open_token.server.store._faults import explained

MOST_TOGETHER = 512


class Job:
    """A function over the database that somebody waits for."""

    __slots__ = ("arguments", "function", "future", "loop")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        future: "Future[Any] | asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.function, self.arguments, self.future, self.loop = function, arguments, future, loop


Outcome = tuple[Job, Any, Exception | None]


class Writer:
    """Takes functions of any thread and event loop, and runs them one after the other on its own
    connection."""

    def __init__(self, db: sqlite3.Connection, folder: Path) -> None:
        self._db, self._folder = db, folder
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._work, name="open-token-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    def write(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run it, and wait for the commit."""
        future: Future[Any] = Future()
        self._put(Job(function, arguments, future, None))
        return future.result()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Run it; the future of this event loop is done after the commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(Job(function, arguments, future, loop))
        return future

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._gate:
            if self._is_open:
                self._is_open = False
                self._queue.put(None)
        self._thread.join()

    def _put(self, job: Job) -> None:
        with self._gate:
            if not self._is_open:
                raise StoreError(
                    "the store is closed", where=str(self._folder), code="store.closed"
                )
            self._queue.put(job)

    def _work(self) -> None:
        is_last = False
        while not is_last:
            waiting = [self._queue.get()]
            while len(waiting) < MOST_TOGETHER and not self._queue.empty():
                waiting.append(self._queue.get())
            is_last = waiting[-1] is None
            jobs = [job for job in waiting if job is not None]
            outcomes = self._together(jobs)
            if outcomes is None:
                outcomes = [outcome for job in jobs for outcome in self._together([job]) or ()]
            self._tell(outcomes)

    def _together(self, jobs: Sequence[Job]) -> list[Outcome] | None:
        """All in one transaction; None when one of several spoilt it, and each must go alone."""
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
                        return [(job, None, problem)] if len(jobs) == 1 else None
                    outcomes.append((job, None, problem))  # refused before it changed anything
            db.execute("COMMIT")
        except Exception as problem:
            _roll_back(db)
            return [(job, None, problem) for job in jobs]
        return outcomes

    def _tell(self, outcomes: Sequence[Outcome]) -> None:
        """One wake-up for each event loop, however many of its futures are done."""
        by_loop: defaultdict[asyncio.AbstractEventLoop | None, list[Outcome]] = defaultdict(list)
        for job, result, problem in outcomes:
            by_loop[job.loop].append((job, result, problem and explained(problem, self._folder)))
        for loop, settled in by_loop.items():
            if loop is None:
                _settle(settled)
                continue
            try:
                loop.call_soon_threadsafe(_settle, settled)
            except RuntimeError:
                continue  # the loop is closed: nobody waits any more


def _settle(outcomes: Sequence[Outcome]) -> None:
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
            return  # SQLite rolled back by itself
