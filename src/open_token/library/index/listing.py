"""What the index knows about sessions as a whole: counts, lines changed, estimated cost."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from open_token.library.prices import PriceList

_FACTS = (
    "id, path, conversation, mtime_ns, reader, session_id, title, cwd, branch, started, modified, "
    "events, prompts, calls, failures, added, removed, masked, origin, error"
)


class SessionFacts(NamedTuple):
    """One session of the index."""

    number: int
    """Its number in the index."""
    path: str
    conversation: str
    mtime_ns: int
    reader: str
    id: str
    title: str
    cwd: str
    branch: str
    started: float | None
    modified: float
    events: int
    prompts: int
    calls: int
    failures: int
    added: int
    """Lines added to files by calls that succeeded."""
    removed: int
    masked: int
    """How many values are masked in its texts."""
    origin: str
    """The id of the conversation that it is a copy of, if it was handed over and not continued."""
    error: str
    """Why it could not be read; empty if it could."""


class SessionCost(NamedTuple):
    """The tokens of a session, and their price."""

    tokens: int = 0
    cost: float | None = None
    """Estimated, in dollars; None if the price of no model is known."""


def list_facts(database: sqlite3.Connection) -> list[SessionFacts]:
    """Return every session of the index."""
    return list(map(SessionFacts._make, database.execute(f"SELECT {_FACTS} FROM session")))


def list_touching(database: sqlite3.Connection, path: str) -> set[int]:
    """Return the numbers of the sessions with a call on a path that contains this text."""
    escaped = path.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    rows = database.execute(
        "SELECT DISTINCT block.session FROM event JOIN block ON block.id = event.block "
        "WHERE event.path LIKE ? ESCAPE '!'",
        (f"%{escaped}%",),
    )
    return {number for (number,) in rows}


def count_costs(
    database: sqlite3.Connection, prices: PriceList, numbers: Iterable[int] | None = None
) -> dict[int, SessionCost]:
    """Return tokens and estimated cost by session; of these sessions only, if they are given.

    What a session repeats of an earlier one is part of its own cost here.
    """
    query = "SELECT session, model, input, cache_read, cache_write, output FROM usage"
    if numbers is None:
        rows: Iterable[tuple[int, str, int, int, int, int]] = database.execute(query)
    else:
        rows = (
            row
            for number in numbers
            for row in database.execute(f"{query} WHERE session = ?", (number,))
        )
    costs: dict[int, SessionCost] = {}
    for number, model, given, read, written, output in rows:
        known = costs.get(number, SessionCost())
        price = prices.estimate(
            model, input=given, cache_read=read, cache_write=written, output=output
        )
        cost = known.cost if price is None else (known.cost or 0.0) + price
        costs[number] = SessionCost(known.tokens + given + output, cost)
    prices.save()
    return costs
