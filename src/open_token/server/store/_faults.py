"""What can go wrong in a store, in words that say what to do."""

import sqlite3
from pathlib import Path

from open_token.errors import StoreError

PASSING = frozenset({"store.away", "store.busy", "store.disk", "store.full", "store.read-only"})
"""What may be over soon without anybody asking for something else: trying again later makes
sense."""


class Conflict(StoreError):
    """Somebody else wrote first."""

    def __init__(
        self,
        what: str,
        *,
        actual: int | None = None,
        help: str = "read what is there now, and try again",
    ) -> None:
        super().__init__(what, help=help, code="store.conflict")
        self.actual = actual


def name_taken() -> Conflict:
    """A user of that name is there, perhaps disabled."""
    return Conflict(
        "there is a user of that name",
        help="choose another one; `open-token server user list` tells who is there",
    )


class Missing(StoreError):
    """It is not there, or not for this user; nobody learns which."""

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no such {what}", code="store.missing")


class Fenced(StoreError):
    """Another worker has taken the run over."""

    def __init__(self) -> None:
        super().__init__(
            "the run belongs to another worker now", help="stop working on it", code="store.fenced"
        )


def damaged(what: str, folder: Path) -> StoreError:
    """The files are not as we left them."""
    return StoreError(
        what,
        where=str(folder),
        help="restore the last backup into a new folder; what is there is left as it is",
        code="store.damaged",
    )


def explained(problem: Exception, folder: Path) -> Exception:
    """An error of the database as one of ours; every other as it is. Values never appear in it."""
    if isinstance(problem, OverflowError | UnicodeEncodeError):
        return StoreError("a number or a text does not fit into the database", code="store.value")
    if not isinstance(problem, sqlite3.Error):
        return problem
    name = getattr(problem, "sqlite_errorname", None) or type(problem).__name__
    known = next(
        (fault for start, fault in _faults(str(folder)).items() if name.startswith(start)), None
    )
    return known or StoreError(f"the database refuses: {name}", where=str(folder), code="store.sql")


def _faults(where: str) -> dict[str, StoreError]:
    cannot_open = StoreError(
        "the database cannot be opened",
        where=where,
        help="check that the folder is there and that this user may write to it",
        code="store.open",
    )
    busy = StoreError(
        "another process holds the database",
        where=where,
        help="end it and try again",
        code="store.busy",
    )
    return {
        "SQLITE_FULL": StoreError(
            "the disk is full",
            where=where,
            help="free some space; nothing is damaged, and the server goes on by itself",
            code="store.full",
        ),
        "SQLITE_READONLY": StoreError(
            "the data folder may not be written",
            where=where,
            help="give this user the right to write there; the server goes on by itself",
            code="store.read-only",
        ),
        "SQLITE_IOERR": StoreError(
            "the disk does not read or write",
            where=where,
            help="see the log of the system",
            code="store.disk",
        ),
        "SQLITE_CONSTRAINT": StoreError(
            "a row does not fit what is stored",
            where=where,
            help="look at its ids and times",
            code="store.value",
        ),
        "SQLITE_CANTOPEN": cannot_open,
        "SQLITE_PERM": cannot_open,
        "SQLITE_CORRUPT": damaged("the database is damaged", Path(where)),
        "SQLITE_NOTADB": damaged("the file is no database of ours", Path(where)),
        "SQLITE_BUSY": busy,
        "SQLITE_LOCKED": busy,
    }
