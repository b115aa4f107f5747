"""Reader threads, each with its own connection; readers never wait for the writer."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from open_token.errors import StoreError
from open_token.server.store.errors import translate_error

_ERRORS = (sqlite3.Error, OverflowError, UnicodeEncodeError)
_NO_WAIT = "PRAGMA busy_timeout = 0"
_MAX_CACHED = 1000


class ReadConnection(sqlite3.Connection):
    """A read connection with a cache of results that is valid until the next commit."""

    _version = -1
    _cache: dict[tuple[Any, ...], Any]

    def recall(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the cached result of a function; it must be small and immutable."""
        version = self.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._cache) >= _MAX_CACHED:
            self._version = version
            self._cache = {}
        key = (function, *arguments)
        if key not in self._cache:
            self._cache[key] = function(self, *arguments)
        return self._cache[key]


class Readers:
    """Runs functions on the database, each on one snapshot of it."""

    def __init__(self, connect: Callable[[], ReadConnection], folder: Path, threads: int) -> None:
        self._connect = connect
        self._folder = folder
        self._local = threading.local()
        self._lookup_lock = threading.Lock()
        self._is_closed = False
        self._opened: list[ReadConnection] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="open-token-reader")

    def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function and wait for its result."""
        return self._start(self._threads.submit, self._run, function, arguments).result()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Run a function; the future belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = self._start(
            loop.run_in_executor, self._threads, self._run, function, arguments
        )
        return future

    def look_up(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function that finds a row by its key in the calling thread.

        That is faster than waking a reader thread. The function makes a single query, which needs
        no transaction for a consistent snapshot. Writers do not block it; if the database is busy
        for another reason, the result is a future.
        """
        with self._lookup_lock:
            if self._is_closed:
                raise self._closed_error()
            try:
                return function(self._connection(_NO_WAIT), *arguments)
            except sqlite3.OperationalError as problem:
                # Errors of the Python module itself, such as for invalid text, have no code.
                if getattr(problem, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise translate_error(problem, self._folder) from None
            except _ERRORS as problem:
                raise translate_error(problem, self._folder) from None
        return self.submit(function, *arguments)

    def close(self) -> None:
        """Wait for running reads, and stop."""
        self._threads.shutdown()
        with self._lookup_lock:
            self._is_closed = True
            for db in self._opened:
                db.close()

    def _start(self, start: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return start(*arguments)
        except RuntimeError:
            raise self._closed_error() from None

    def _closed_error(self) -> StoreError:
        return StoreError("the store is closed", where=str(self._folder), code="store.closed")

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            db = self._connection()
            db.execute("BEGIN")
            try:
                return function(db, *arguments)
            finally:
                db.execute("COMMIT")
        except _ERRORS as problem:
            raise translate_error(problem, self._folder) from None

    def _connection(self, *setup: str) -> ReadConnection:
        db: ReadConnection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._connect()
            self._local.db = db
            for statement in setup:
                db.execute(statement)
            self._opened.append(db)
        return db
