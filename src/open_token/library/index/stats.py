"""Counts over the index: sessions, prompts, calls, tokens and estimated cost.

Forks, resumed sessions and handed-over copies repeat what an earlier session holds, with the same
times and counts. Such a row is counted once, in the session that was indexed first.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import msgspec

from open_token.library.index.events import PERSON, ROLES
from open_token.library.prices import PriceList

GROUPS = ("day", "week", "month", "project", "model", "agent", "tool", "session", "branch")
BLOCK_HOURS = 5
UNKNOWN = "unknown"

# A row without a time cannot be recognized in a copy, so that it always counts.
_USAGE = """
SELECT session, ts, model, input, cache_read, cache_write, output, reasoning FROM (
    SELECT *, min(session) OVER (
        PARTITION BY ts, model, input, cache_read, cache_write, output, reasoning
    ) AS first FROM usage
) WHERE ts IS NULL OR session = first ORDER BY ts
"""
_CALLS = """
SELECT session, ts, tool, has_failed FROM (
    SELECT *, min(session) OVER (PARTITION BY ts, tool, seq) AS first FROM call
) WHERE ts IS NULL OR session = first
"""
_PROMPTS = """
SELECT session, ts FROM (
    SELECT block.session AS session, event.ts AS ts,
        min(block.session) OVER (PARTITION BY event.ts, event.length) AS first
    FROM event JOIN block ON block.id = event.block WHERE event.role = ?
) WHERE ts IS NULL OR session = first
"""


class Counts(msgspec.Struct):
    """What was done and used."""

    sessions: int = 0
    prompts: int = 0
    calls: int = 0
    failures: int = 0
    input: int = 0
    """Input tokens, without cached ones."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    """Part of output."""
    cost: float = 0.0
    """Estimated, in dollars, without models whose price is not known."""

    @property
    def total_tokens(self) -> int:
        """All tokens."""
        return self.input + self.cache_read + self.cache_write + self.output


class StatsFilter(NamedTuple):
    """Which rows are counted."""

    agent: str = ""
    folder: str = ""
    project: str = ""
    since: float | None = None
    until: float | None = None


@dataclass
class Stats:
    """Counts by group, and their total."""

    groups: dict[str, Counts] = field(default_factory=dict)
    total: Counts = field(default_factory=Counts)
    unpriced_models: dict[str, int] = field(default_factory=dict)
    """Models without a known price, and their tokens."""
    prices_checked: str = ""
    """The oldest day on which one of the used prices was checked."""


class Block(NamedTuple):
    """Five hours from the first response, as usage limits of subscriptions count them."""

    start: float
    end: float
    last: float
    counts: Counts


class _Session(NamedTuple):
    id: str
    reader: str
    title: str
    cwd: str
    branch: str
    modified: float


class _Call(NamedTuple):
    session: int
    ts: float | None
    tool: str
    has_failed: int


class _Prompt(NamedTuple):
    session: int
    ts: float | None


class _Usage(NamedTuple):
    session: int
    ts: float | None
    model: str
    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int


class StatsReader:
    """Counts what an index holds."""

    def __init__(
        self, database: sqlite3.Connection, prices: PriceList, zone: tzinfo | None = None
    ) -> None:
        self._database = database
        self._prices = prices
        self._zone = zone
        self._sessions: dict[int, _Session] = {}

    def count(self, by: str, wanted: StatsFilter) -> Stats:
        """Return the counts by group, in the order of the groups' names or times."""
        stats = Stats()
        self._sessions = self._load_sessions(wanted)
        seen: dict[str, set[int]] = {}
        counted: set[int] = set()

        def add(session_id: int, name: str) -> Counts:
            seen.setdefault(name, set()).add(session_id)
            counted.add(session_id)
            return stats.groups.setdefault(name, Counts())

        name_row = self._choose_namer(by)
        for call in self._iter_calls(wanted):
            name = name_row(call.session, call.ts, "", call.tool)
            for counts in (add(call.session, name), stats.total):
                counts.calls += 1
                counts.failures += call.has_failed
        for prompt in self._iter_prompts(wanted):
            if by not in ("model", "tool"):
                add(prompt.session, name_row(prompt.session, prompt.ts, "", "")).prompts += 1
            stats.total.prompts += 1
        for usage in self._iter_usage(wanted):
            cost = self._estimate(usage, stats)
            # Tokens belong to a response, not to one of the tools that it calls.
            if by != "tool":
                name = name_row(usage.session, usage.ts, usage.model or UNKNOWN, "")
                _add_usage(add(usage.session, name), usage, cost)
            _add_usage(stats.total, usage, cost)
            counted.add(usage.session)
        for name, sessions in seen.items():
            stats.groups[name].sessions = len(sessions)
        stats.total.sessions = len(counted)
        if by == "model":
            # Calls and prompts have no model of their own.
            stats.groups.pop("", None)
        stats.groups = dict(sorted(stats.groups.items()))
        self._prices.save()
        return stats

    def list_blocks(self, wanted: StatsFilter) -> list[Block]:
        """Return the five-hour blocks of usage, oldest first.

        A block begins at the full hour of its first response, and ends five hours later; the next
        response begins a new one.
        """
        self._sessions = self._load_sessions(wanted)
        length = BLOCK_HOURS * 3600.0
        blocks: list[Block] = []
        stats = Stats()
        for usage in self._iter_usage(wanted):
            ts = usage.ts
            if ts is None:
                continue
            is_new = not blocks or ts >= blocks[-1].end or ts - blocks[-1].last > length
            if is_new:
                start = ts - ts % 3600
                blocks.append(Block(start, start + length, ts, Counts()))
            blocks[-1] = blocks[-1]._replace(last=ts)
            _add_usage(blocks[-1].counts, usage, self._estimate(usage, stats))
        self._prices.save()
        return blocks

    def _estimate(self, usage: _Usage, stats: Stats) -> float:
        cost = self._prices.estimate(
            usage.model,
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            output=usage.output,
        )
        if cost is None:
            name = usage.model or UNKNOWN
            tokens = stats.unpriced_models.get(name, 0) + usage.input + usage.output
            stats.unpriced_models[name] = tokens
            return 0.0
        price = self._prices.find(usage.model)
        if price is not None and price.checked:
            stats.prices_checked = min(stats.prices_checked or price.checked, price.checked)
        return cost

    def _load_sessions(self, wanted: StatsFilter) -> dict[int, _Session]:
        rows = self._database.execute(
            "SELECT id, session_id, reader, title, cwd, branch, modified FROM session"
        )
        sessions = {row[0]: _Session(*row[1:]) for row in rows}
        return {
            number: session for number, session in sessions.items() if _is_wanted(session, wanted)
        }

    def _iter_calls(self, wanted: StatsFilter) -> Iterator[_Call]:
        for call in map(_Call._make, self._database.execute(_CALLS)):
            if self._covers(call.session, call.ts, wanted):
                yield call

    def _iter_prompts(self, wanted: StatsFilter) -> Iterator[_Prompt]:
        rows = self._database.execute(_PROMPTS, (ROLES.index(PERSON),))
        for prompt in map(_Prompt._make, rows):
            if self._covers(prompt.session, prompt.ts, wanted):
                yield prompt

    def _iter_usage(self, wanted: StatsFilter) -> Iterator[_Usage]:
        for usage in map(_Usage._make, self._database.execute(_USAGE)):
            if self._covers(usage.session, usage.ts, wanted):
                yield usage

    def _covers(self, session_id: int, ts: float | None, wanted: StatsFilter) -> bool:
        """Return whether a row is of a wanted session and time."""
        session = self._sessions.get(session_id)
        if session is None:
            return False
        moment = session.modified if ts is None else ts
        if wanted.since is not None and moment < wanted.since:
            return False
        return wanted.until is None or moment < wanted.until

    def _choose_namer(self, by: str) -> Callable[[int, float | None, str, str], str]:
        """Return the function that names the group of a row."""
        if by in ("day", "week", "month"):
            return lambda session, ts, model, tool: self._name_period(by, session, ts)
        if by == "model":
            return lambda session, ts, model, tool: model
        if by == "tool":
            return lambda session, ts, model, tool: tool
        field_name = {"project": "cwd", "agent": "reader", "session": "id", "branch": "branch"}[by]
        return lambda session, ts, model, tool: (
            getattr(self._sessions[session], field_name) or UNKNOWN
        )

    def _name_period(self, by: str, session: int, ts: float | None) -> str:
        moment = self._sessions[session].modified if ts is None else ts
        day = datetime.fromtimestamp(moment, self._zone).date()
        if by == "month":
            return day.strftime("%Y-%m")
        if by == "week":
            day -= timedelta(days=day.weekday())
        return day.isoformat()

    def find_title(self, session_id: str) -> str:
        """Return the title of a session that was counted."""
        for session in self._sessions.values():
            if session.id == session_id:
                return session.title
        return ""


def _is_wanted(session: _Session, wanted: StatsFilter) -> bool:
    if wanted.agent and session.reader != wanted.agent:
        return False
    if wanted.project and wanted.project.lower() not in session.cwd.lower():
        return False
    folder = wanted.folder.rstrip("/\\")
    return not folder or session.cwd == folder or session.cwd.startswith(folder + "/")


def _add_usage(counts: Counts, usage: _Usage, cost: float) -> None:
    counts.input += max(0, usage.input - usage.cache_read - usage.cache_write)
    counts.cache_read += usage.cache_read
    counts.cache_write += usage.cache_write
    counts.output += usage.output
    counts.reasoning += usage.reasoning
    counts.cost += cost
