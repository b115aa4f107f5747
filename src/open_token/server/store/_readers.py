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


class Readers:
    """Runs functions over the database, each on one unchanging view of it."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], folder: Path, threads: int) -> None:
        self._connect, self._folder = connect, folder
        self._mine = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="open-token-reader")

    def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run it, and wait."""
        return self._guarded(self._threads.submit, self._run, function, arguments).result()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Run it; the future is one of this event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = self._guarded(loop.run_in_executor, self._threads, self._run, function, arguments)
        return future

    def close(self) -> None:
        """Wait for those that read, and stop."""
        self._threads.shutdown()
        for db in self._opened:
            db.close()

    def _guarded(self, start: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return start(*arguments)
        except RuntimeError:
            raise StoreError("the store is closed", where=str(self._folder), code="store.closed") from None

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            db = self._connection()
            db.execute("BEGIN")
            try:
                return function(db, *arguments)
            finally:
                db.execute("COMMIT")
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as problem:
            raise explained(problem, self._folder) from None

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._mine, "db", None)
        if db is None:
            db = self._mine.db = self._connect()
            self._opened.append(db)
        return db
