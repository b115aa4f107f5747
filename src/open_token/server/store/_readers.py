"""Threads that read, each on a connection of its own: a reader never waits for the writer."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from open_token.errors import StoreError
from open_token.server.store._faults import explained

_FAULTS = (sqlite3.Error, OverflowError, UnicodeEncodeError)
_NO_WAIT = "PRAGMA busy_timeout = 0"
_MOST_RECALLED = 1000


class Reading(sqlite3.Connection):
    """A connection that reads, with the answers that it gave since somebody last committed
    anything."""

    _version = -1
    _answers: dict[tuple[Any, ...], Any]

    def recall(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer of a function that is often asked the same; it must be small, and nobody
        changes it."""
        version = self.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._answers) >= _MOST_RECALLED:
            self._version, self._answers = version, {}
        asked = (function, *arguments)
        if asked not in self._answers:
            self._answers[asked] = function(self, *arguments)
        return self._answers[asked]


class Readers:
    """Runs functions over the database, each on one unchanging view of it."""

    def __init__(self, connect: Callable[[], Reading], folder: Path, threads: int) -> None:
        self._connect, self._folder = connect, folder
        self._mine = threading.local()
        self._looking = threading.Lock()
        self._is_closed = False
        self._opened: list[Reading] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="open-token-reader")

    def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run it, and wait."""
        return self._guarded(self._threads.submit, self._run, function, arguments).result()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Run it; the future is one of this event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = self._guarded(
            loop.run_in_executor, self._threads, self._run, function, arguments
        )
        return future

    def look_up(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function that finds a row by its key, here and now: that takes less than to wake a
        thread.

        It asks one question, which is one view by itself. None of those that write keeps it
        waiting; where the database is busy all the same, the answer is a future."""
        with self._looking:
            if self._is_closed:
                raise self._closed()
            try:
                return function(self._connection(_NO_WAIT), *arguments)
            except sqlite3.OperationalError as problem:
                # What the module says itself, as of text that is no text, has no code.
                if getattr(problem, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise explained(problem, self._folder) from None
            except _FAULTS as problem:
                raise explained(problem, self._folder) from None
        return self.submit(function, *arguments)

    def close(self) -> None:
        """Wait for those that read, and stop."""
        self._threads.shutdown()
        with self._looking:
            self._is_closed = True
            for db in self._opened:
                db.close()

    def _guarded(self, start: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return start(*arguments)
        except RuntimeError:
            raise self._closed() from None

    def _closed(self) -> StoreError:
        return StoreError("the store is closed", where=str(self._folder), code="store.closed")

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            db = self._connection()
            db.execute("BEGIN")
            try:
                return function(db, *arguments)
            finally:
                db.execute("COMMIT")
        except _FAULTS as problem:
            raise explained(problem, self._folder) from None

    def _connection(self, *setup: str) -> Reading:
        db: Reading | None = getattr(self._mine, "db", None)
        if db is None:
            db = self._mine.db = self._connect()
            for words in setup:
                db.execute(words)
            self._opened.append(db)
        return db
