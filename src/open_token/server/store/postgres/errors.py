"""Translate errors of PostgreSQL into errors with advice; they never contain stored values."""

import asyncpg

from open_token.errors import StoreError

RETRYABLE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Errors after which nothing is written and a retry helps."""

_ERRORS_BY_STATE = {
    "22": ("a number or a text cannot be stored", None, "store.value"),
    "23": ("a row violates a constraint of the database", "check its ids and times", "store.value"),
    "25006": (
        "the database is read-only",
        "it is a standby or set to read-only; the server recovers by itself",
        "store.read-only",
    ),
    "53100": (
        "the disk of the database is full",
        "free some space; no data are damaged",
        "store.full",
    ),
    "58": (
        "the disk of the database reports a read or write error",
        "see the log of the database",
        "store.disk",
    ),
    "XX001": ("the database is damaged", "restore the last backup", "store.damaged"),
    "28": (
        "the database rejected the user",
        "check user and password in the database URL",
        "store.open",
    ),
    "3D": ("database not found", "create it, or check the database URL", "store.open"),
}


def unavailable_error() -> StoreError:
    """Return the error for a database that does not answer."""
    return StoreError(
        "the database cannot be reached",
        help="check that it runs and that its URL is right; the server recovers by itself",
        code="store.away",
    )


def translate_error(problem: Exception) -> Exception:
    """Return an error of the database as a StoreError, and any other error unchanged."""
    if isinstance(problem, StoreError):
        return problem
    if isinstance(problem, asyncpg.exceptions.DataError | OverflowError | UnicodeEncodeError):
        return StoreError("a number or a text cannot be stored", code="store.value")
    if isinstance(problem, asyncpg.PostgresError):
        return _translate_state(problem)
    # When the connection dies during a write, asyncpg may fail on its own state while unwinding.
    if isinstance(
        problem, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError
    ):
        return unavailable_error()
    return problem


def connection_error(problem: Exception) -> Exception:
    """Translate the error of a failed connection.

    An internal error (XX000) counts as unavailable: PostgreSQL reports it on a full disk, when it
    cannot write the file that each new connection starts with.
    """
    error = translate_error(problem)
    if isinstance(error, StoreError) and error.code == "store.sql":
        return unavailable_error()
    return error


def _translate_state(problem: asyncpg.PostgresError) -> StoreError:
    state = str(getattr(problem, "sqlstate", None) or "")
    # 25P03: this node was paused during a write, and the database closed its connection.
    if state.startswith(("08", "57P", "53300", "25P03")):
        return unavailable_error()
    for start, (what, advice, code) in _ERRORS_BY_STATE.items():
        if state.startswith(start):
            return StoreError(what, help=advice, code=code)
    return StoreError(f"database error: {state or type(problem).__name__}", code="store.sql")
