"""Usage: sessions, calls, tokens and estimated cost."""

import time
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from open_token.errors import UsageError
from open_token.jsontools.timestamps import parse_moment
from open_token.library.index import SearchIndex
from open_token.library.index.stats import GROUPS, Counts, StatsFilter, StatsReader
from open_token.web.responses import respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Workspace, compute_key

_BLOCKS = "block"
_MAX_BLOCKS = 60
_DEAREST = 10


class UsageRow(msgspec.Struct):
    """The counts of one group."""

    name: str
    counts: Counts
    title: str = ""
    key: str = ""
    """Of a session: what identifies it in addresses."""
    is_active: bool = False
    """Of a five-hour block: whether it has not ended."""


async def count_usage(request: Request) -> Response:
    """Return counts by the group `by` since `since`, their total, and the dearest sessions."""
    workspace: Workspace = request.app.state.workspace
    by = request.query_params.get("by", "day")
    if by != _BLOCKS and by not in GROUPS:
        raise UsageError(f"by takes {', '.join(GROUPS)} or {_BLOCKS}")
    now = time.time()
    since = request.query_params.get("since", "")
    wanted = StatsFilter(
        agent=request.query_params.get("agent", "").replace("-", "_"),
        project=request.query_params.get("project", ""),
        since=parse_moment(since, now) if since else None,
    )
    return respond(await run_in_threadpool(_count, workspace, by, wanted, now))


def _count(workspace: Workspace, by: str, wanted: StatsFilter, now: float) -> dict[str, Any]:
    prices = workspace.load_prices()
    with SearchIndex(workspace.index_folder) as index:
        keys = {fact.id: compute_key(fact.path, fact.conversation) for fact in index.list_facts()}
        reader = index.read_stats(prices)
        sessions = reader.count("session", wanted)
        titles = {name: reader.find_title(name) for name in _find_dearest(sessions.groups)}
        if by == _BLOCKS:
            rows = _list_blocks(reader, wanted, now)
        else:
            groups = sessions if by == "session" else reader.count(by, wanted)
            rows = [UsageRow(name, counts) for name, counts in groups.groups.items()]
    dearest = [
        UsageRow(name, sessions.groups[name], title, keys.get(name, ""))
        for name, title in titles.items()
    ]
    return {
        "by": by,
        "rows": rows,
        "total": sessions.total,
        "dearest": dearest,
        "prices_checked": sessions.prices_checked,
        "has_prices": prices.is_available,
        "unpriced": sessions.unpriced_models,
        "home": str(workspace.home),
        "index": workspace.index_state,
    }


def _find_dearest(groups: dict[str, Counts]) -> list[str]:
    names = [name for name, counts in groups.items() if counts.cost > 0]
    return sorted(names, key=lambda name: -groups[name].cost)[:_DEAREST]


def _list_blocks(reader: StatsReader, wanted: StatsFilter, now: float) -> list[UsageRow]:
    rows = []
    for block in reader.list_blocks(wanted)[-_MAX_BLOCKS:]:
        start = time.strftime("%Y-%m-%d %H:%M", time.localtime(block.start))
        end = time.strftime("%H:%M", time.localtime(block.end))
        rows.append(UsageRow(f"{start} to {end}", block.counts, is_active=block.end > now))
    return rows


SCREEN = Screen("usage", "Usage", "M5 20V10M12 20V4M19 20v-7", (Route("/web/usage", count_usage),))
