"""Errors of a store, with advice for the operator; they never contain stored values."""

import sqlite3
from pathlib import Path

from open_token.errors import StoreError

TRANSIENT_CODES = frozenset(
    {"store.away", "store.busy", "store.disk", "store.full", "store.read-only"}
)
"""Codes of errors that may go away by themselves: the same request can be retried later."""


class ConflictError(StoreError):
    """Another writer was first."""

    def __init__(
        self,
        what: str,
        *,
        actual: int | None = None,
        help: str = "read the current state and try again",
    ) -> None:
        super().__init__(what, help=help, code="store.conflict")
        self.actual = actual


def name_taken_error() -> ConflictError:
    """Return the error for a user name that exists already, perhaps disabled."""
    return ConflictError(
        "a user with this name exists already",
        help="choose another name; `open-token server user list` shows all users",
    )


class NotFoundError(StoreError):
    """Something does not exist or belongs to another user; the error does not say which."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} not found", code="store.missing")


class FencedError(StoreError):
    """Another worker has taken over the run."""

    def __init__(self) -> None:
        super().__init__(
            "the run was taken over by another worker",
            help="stop working on it",
            code="store.fenced",
        )


def damaged_error(what: str, folder: Path) -> StoreError:
    """Return the error for data that were changed from outside."""
    return StoreError(
        what,
        where=str(folder),
        help="restore the last backup into a new folder; the damaged data are left unchanged",
        code="store.damaged",
    )


def translate_error(problem: Exception, folder: Path) -> Exception:
    """Return an error of SQLite as a StoreError, and any other error unchanged."""
    if isinstance(problem, OverflowError | UnicodeEncodeError):
        return StoreError("a number or a text cannot be stored", code="store.value")
    if not isinstance(problem, sqlite3.Error):
        return problem
    name = getattr(problem, "sqlite_errorname", None) or type(problem).__name__
    for prefix, error in _build_sqlite_errors(str(folder)).items():
        if name.startswith(prefix):
            return error
    return StoreError(f"database error: {name}", where=str(folder), code="store.sql")


def _build_sqlite_errors(where: str) -> dict[str, StoreError]:
    """Return the errors by the beginning of the name that SQLite gives them."""
    cannot_open = StoreError(
        "the database cannot be opened",
        where=where,
        help="check that the folder exists and that this user may write to it",
        code="store.open",
    )
    busy = StoreError(
        "the database is locked by another process",
        where=where,
        help="stop that process and try again",
        code="store.busy",
    )
    return {
        "SQLITE_FULL": StoreError(
            "the disk is full",
            where=where,
            help="free some space; no data are damaged, and the server recovers by itself",
            code="store.full",
        ),
        "SQLITE_READONLY": StoreError(
            "the data folder is read-only",
            where=where,
            help="give this user write permission; the server recovers by itself",
            code="store.read-only",
        ),
        "SQLITE_IOERR": StoreError(
            "the disk reports a read or write error",
            where=where,
            help="see the system log",
            code="store.disk",
        ),
        "SQLITE_CONSTRAINT": StoreError(
            "a row violates a constraint of the database",
            where=where,
            help="check its ids and times",
            code="store.value",
        ),
        "SQLITE_CANTOPEN": cannot_open,
        "SQLITE_PERM": cannot_open,
        "SQLITE_CORRUPT": damaged_error("the database is damaged", Path(where)),
        "SQLITE_NOTADB": damaged_error("the file is not an open-token database", Path(where)),
        "SQLITE_BUSY": busy,
        "SQLITE_LOCKED": busy,
    }
