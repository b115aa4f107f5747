"""The search index over all sessions of this machine, and over archived ones.

It holds redacted text only. `update` reads what is new or has changed; `search` finds events.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from open_token.context import Context
from open_token.library.discovery import Session
from open_token.library.index.database import (
    FILE_NAME,
    measure_database,
    open_database,
    remove_database,
)
from open_token.library.index.events import ROLES
from open_token.library.index.listing import (
    SessionCost,
    SessionFacts,
    count_costs,
    list_facts,
    list_touching,
)
from open_token.library.index.query import parse_query
from open_token.library.index.search import Filters, FoundSession, Hit, Searcher, SearchResult
from open_token.library.index.stats import StatsReader
from open_token.library.index.update import IndexUpdater, Progress
from open_token.library.jobs import limit_jobs
from open_token.library.prices import PriceList
from open_token.storage.files import make_folder, try_lock

__all__ = [
    "ROLES",
    "Filters",
    "FoundSession",
    "Hit",
    "IndexStatus",
    "SearchIndex",
    "SearchResult",
    "SessionCost",
    "SessionFacts",
    "remove_index",
]

_LOCK_NAME = "index.lock"


@dataclass(frozen=True)
class IndexStatus:
    """What an index holds."""

    path: Path
    bytes: int
    sessions: int
    failed: int
    events: int
    characters: int


class SearchIndex:
    """The index in a cache folder; use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database: sqlite3.Connection = open_database(folder)

    def __enter__(self) -> "SearchIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def find_due(self, sessions: Iterable[Session], context: Context) -> list[Session]:
        """Return the sessions that `update` would read."""
        return IndexUpdater(self._database, self._folder, context).find_due(sessions)

    def update(
        self,
        sessions: list[Session],
        context: Context,
        report: Callable[[Session], None] = lambda session: None,
        begin: Callable[[list[Session]], None] = lambda due: None,
        jobs: int = 1,
    ) -> Progress | None:
        """Read the sessions that are new or have changed, and forget those that are gone.

        `begin` gets the sessions that are due, `report` each one that is done. They are read in up
        to `jobs` processes. Returns None if another process is updating the index.
        """
        with self._lock() as is_locked:
            if not is_locked:
                return None
            updater = IndexUpdater(self._database, self._folder, context)
            updater.remove_missing(sessions)
            due = updater.find_due(sessions)
            begin(due)
            jobs = limit_jobs(jobs, (session.bytes for session in due))
            updater.update(due, jobs, report)
            # Without this, the write-ahead log of a first build would stay as large as the index.
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return updater.progress

    @contextlib.contextmanager
    def _lock(self) -> Iterator[bool]:
        make_folder(self._folder)
        with try_lock(self._folder / _LOCK_NAME) as is_locked:
            yield is_locked

    def search(
        self, text: str, filters: Filters, *, max_sessions: int = 20, max_hits: int = 3
    ) -> SearchResult:
        """Return the newest sessions with events that match a query."""
        searcher = Searcher(self._database)
        query = parse_query(text)
        return searcher.search(query, filters, max_sessions=max_sessions, max_hits=max_hits)

    def list_facts(self) -> list[SessionFacts]:
        """Return what is known about each session as a whole."""
        return list_facts(self._database)

    def list_touching(self, path: str) -> set[int]:
        """Return the numbers of the sessions with a call on a path that contains this text."""
        return list_touching(self._database, path)

    def count_costs(
        self, prices: PriceList, numbers: Iterable[int] | None = None
    ) -> dict[int, SessionCost]:
        """Return tokens and estimated cost by the number of a session."""
        return count_costs(self._database, prices, numbers)

    def list_failures(self) -> list[tuple[str, str]]:
        """Return path and error code of the sessions that could not be read."""
        rows = self._database.execute(
            "SELECT path, error FROM session WHERE error != '' ORDER BY path"
        )
        return [(path, error) for path, error in rows]

    def read_stats(self, prices: PriceList, zone: tzinfo | None = None) -> StatsReader:
        """Return a reader of counts and estimated costs; days are those of the time zone."""
        return StatsReader(self._database, prices, zone)

    def read_status(self) -> IndexStatus:
        """Return how much is indexed."""
        sessions, failed, events, characters = self._database.execute(
            "SELECT count(*), coalesce(sum(error != ''), 0), coalesce(sum(events), 0), "
            "coalesce(sum(characters), 0) FROM session"
        ).fetchone()
        path = self._folder / FILE_NAME
        size = measure_database(self._folder)
        return IndexStatus(path, size, sessions, failed, events, characters)


def remove_index(folder: Path) -> bool:
    """Delete the index; return whether there was one."""
    return remove_database(folder)
