"""What can go wrong with PostgreSQL, in words that say what to do; values never appear in them."""

import asyncpg

from open_token.errors import StoreError

AGAIN = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Nothing was written, and trying again helps."""

_KNOWN = {
    "22": ("a number or a text does not fit into the database", None, "store.value"),
    "23": ("a row does not fit what is stored", "look at its ids and times", "store.value"),
    "25006": (
        "the database may not be written",
        "it is a standby or set to read only; the server goes on by itself once it is not",
        "store.read-only",
    ),
    "53100": (
        "the disk of the database is full",
        "free some space; nothing is damaged",
        "store.full",
    ),
    "58": (
        "the disk of the database does not read or write",
        "see the log of the database",
        "store.disk",
    ),
    "XX001": ("the database is damaged", "restore the last backup", "store.damaged"),
    "28": (
        "the database refuses this user",
        "check user and password in the address",
        "store.open",
    ),
    "3D": ("there is no such database", "make it, or check the address", "store.open"),
}


def away() -> StoreError:
    """The database does not answer."""
    return StoreError(
        "the database cannot be reached",
        help="check that it runs and that the address is right; the server goes on by itself once it is back",
        code="store.away",
    )


def explained(problem: Exception) -> Exception:
    """An error of the database as one of ours; every other as it is."""
    if isinstance(problem, StoreError):
        return problem
    if isinstance(problem, asyncpg.exceptions.DataError | OverflowError | UnicodeEncodeError):
        return StoreError("a number or a text does not fit into the database", code="store.value")
    if isinstance(problem, asyncpg.PostgresError):
        return _of_state(problem)
    # When the connection dies in the middle of a step, asyncpg may stumble over its own state on
    # the way out.
    if isinstance(
        problem, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError
    ):
        return away()
    return problem


def not_connected(problem: Exception) -> Exception:
    """The same of a connection that could not be made; what PostgreSQL has no class for passes with
    what caused it.

    On a full disk it says XX000, as it cannot write the file that each new connection begins with.
    """
    told = explained(problem)
    return away() if isinstance(told, StoreError) and told.code == "store.sql" else told


def _of_state(problem: asyncpg.PostgresError) -> StoreError:
    state = str(getattr(problem, "sqlstate", None) or "")
    # 25P03: this node slept in the middle of a step, and the database has let it go.
    if state.startswith(("08", "57P", "53300", "25P03")):
        return away()
    for start, (what, advice, code) in _KNOWN.items():
        if state.startswith(start):
            return StoreError(what, help=advice, code=code)
    return StoreError(f"the database refuses: {state or type(problem).__name__}", code="store.sql")
