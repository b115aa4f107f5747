"""Sessions and Read: the list of all sessions, and each of them as a page."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from open_token.library.session_filter import parse_filter
from open_token.web.reading import Reading, Snapshot
from open_token.web.responses import respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Entry, Workspace, find_agent_title

_MAX_ROWS = 500


class SessionRow(msgspec.Struct):
    """A session as the list shows it."""

    key: str
    id: str
    title: str
    agent: str
    cwd: str
    branch: str
    modified: float
    bytes: int
    is_indexed: bool
    prompts: int = 0
    calls: int = 0
    failures: int = 0
    added: int = 0
    removed: int = 0
    tokens: int = 0
    cost: float | None = None
    masked: int = 0
    is_live: bool = False
    is_archived: bool = False
    is_gone: bool = False
    is_copy: bool = False
    error: str = ""


def build_row(entry: Entry, now: float) -> SessionRow:
    """Return what the list shows of a session."""
    session = entry.session
    row = SessionRow(
        key=entry.key,
        id=session.id,
        title=entry.title,
        agent=entry.agent,
        cwd=entry.cwd,
        branch=entry.branch,
        modified=session.modified,
        bytes=session.bytes,
        is_indexed=entry.facts is not None,
        is_live=entry.is_live(now),
        is_archived=entry.is_archived,
        is_gone=entry.is_gone,
    )
    facts = entry.facts
    if facts is not None:
        row.prompts = facts.prompts
        row.calls = facts.calls
        row.failures = facts.failures
        row.added = facts.added
        row.removed = facts.removed
        row.masked = facts.masked
        row.is_copy = bool(facts.origin)
        row.error = facts.error
        row.tokens, row.cost = entry.cost
    return row


async def list_sessions(request: Request) -> Response:
    """Return the sessions that a filter line asks for: `filter`, `offset`, `limit`."""
    workspace: Workspace = request.app.state.workspace
    now = time.time()
    wanted = parse_filter(request.query_params.get("filter", ""), now)
    offset = _parse_count(request, "offset", 0)
    limit = min(_parse_count(request, "limit", 200), _MAX_ROWS)
    entries = await run_in_threadpool(workspace.find_entries, wanted, now)
    known = len(workspace.list_entries())
    rows = [build_row(entry, now) for entry in entries[offset : offset + limit]]
    return respond(
        {
            "sessions": rows,
            "total": len(entries),
            "known": known,
            "home": str(workspace.home),
            "agents": sorted({entry.agent for entry in workspace.list_entries()}),
            "index": workspace.index_state,
        }
    )


def _parse_count(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else default


async def describe_session(request: Request) -> Response:
    """Return one session as the list shows it, with the name of its agent and its file."""
    workspace: Workspace = request.app.state.workspace
    entry = workspace.find(request.path_params["key"])
    row: dict[str, Any] = msgspec.to_builtins(build_row(entry, time.time()))
    row["agent_title"] = find_agent_title(entry.session.reader)
    row["path"] = str(entry.session.path)
    return respond(row)


async def show_page(request: Request) -> Response:
    """Return a session as a page, in pieces as they are rendered."""
    workspace: Workspace = request.app.state.workspace
    reading: Reading = request.app.state.reading
    entry = workspace.find(request.path_params["key"])
    context = await run_in_threadpool(workspace.build_context)
    snapshot = await run_in_threadpool(reading.open, entry.key, entry.session, context)
    return StreamingResponse(
        _stream_page(snapshot, reading),
        media_type="text/html; charset=utf-8",
        headers={"cache-control": "no-store"},
    )


def _stream_page(snapshot: Snapshot, reading: Reading) -> Iterator[bytes]:
    for part in snapshot.render():
        yield part.encode("utf-8", "replace")
    reading.remember_version(snapshot)


SCREEN = Screen(
    "sessions",
    "Sessions",
    "M4 6h16M4 12h16M4 18h10",
    (
        Route("/web/sessions", list_sessions),
        Route("/web/sessions/{key}", describe_session),
        Route("/web/sessions/{key}/page", show_page),
    ),
)
