"""Search: what was said and done in all sessions."""

import re
import time

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from open_token.errors import UsageError
from open_token.jsontools.timestamps import parse_moment
from open_token.library.index import ROLES, Filters, Hit, SearchIndex
from open_token.web.responses import respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Workspace, compute_key

_FILTER = re.compile(r"(?<!\S)(agent|project|role|tool|path|since|until|regex):(\S+)")
_MAX_SESSIONS = 30
_MAX_HITS = 5


class SearchRow(msgspec.Struct):
    """A session with events that match."""

    key: str
    title: str
    agent: str
    cwd: str
    branch: str
    modified: float
    hits: list[Hit]
    more: int


async def search_sessions(request: Request) -> Response:
    """Return the sessions that match the line `q`, each with its first events that do."""
    workspace: Workspace = request.app.state.workspace
    line = request.query_params.get("q", "")[:1000]
    words, filters = parse_line(line, time.time())
    started = time.perf_counter()
    rows, is_complete = await run_in_threadpool(_search, workspace, words, filters)
    return respond(
        {
            "sessions": rows,
            "is_complete": is_complete,
            "milliseconds": round((time.perf_counter() - started) * 1000),
            "home": str(workspace.home),
            "index": workspace.index_state,
        }
    )


def parse_line(line: str, now: float) -> tuple[str, Filters]:
    """Split a search line into its words and its filters, such as `role:person`."""
    given = dict(_FILTER.findall(line))
    words = _FILTER.sub("", line).strip()
    role = given.get("role", "")
    if role and role not in ROLES:
        raise UsageError(f"role: takes {', '.join(ROLES)}", help="for example role:person")
    times = {}
    for name in ("since", "until"):
        value = given.get(name)
        times[name] = None if value is None else parse_moment(value, now, is_end=name == "until")
        if value is not None and times[name] is None:
            raise UsageError(f"{name}: takes an age or a day", help=f"for example {name}:2d")
    filters = Filters(
        agent=given.get("agent", "").replace("-", "_"),
        project=given.get("project", ""),
        since=times["since"],
        until=times["until"],
        role=role,
        tool=given.get("tool", ""),
        path=given.get("path", ""),
        pattern=given.get("regex", ""),
    )
    return words, filters


def _search(workspace: Workspace, words: str, filters: Filters) -> tuple[list[SearchRow], bool]:
    if not words and filters == Filters():
        return [], True
    with SearchIndex(workspace.index_folder) as index:
        result = index.search(words, filters, max_sessions=_MAX_SESSIONS, max_hits=_MAX_HITS)
    rows = [
        SearchRow(
            key=compute_key(found.path, found.conversation),
            title=found.title,
            agent=found.reader.replace("_", "-"),
            cwd=found.cwd,
            branch=found.branch,
            modified=found.modified,
            hits=found.hits,
            more=found.more,
        )
        for found in result.sessions
    ]
    return rows, result.is_complete


SCREEN = Screen(
    "search",
    "Search",
    "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
    (Route("/web/search", search_sessions),),
)
