"""Compare: two sessions side by side, or several as a table."""

from collections.abc import Iterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from open_token.comparison import Difference, compare
from open_token.comparison.steps import Transcript, TranscriptBuilder
from open_token.errors import UsageError
from open_token.web.reading import Reading, Snapshot
from open_token.web.responses import respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Workspace
from open_token.writers.html.comparison import find_title, render_page

_LEVEL = "semantic"
_MAX_SESSIONS = 12
_PAGE_HEAD = '<link rel="stylesheet" href="/web/assets/comparison.css">'
_PAGE_SCRIPT = (
    '<script src="/web/assets/page.js"></script>'
    '<script type="module" src="/web/assets/compare_page.js"></script>'
)
_PAGE_END = "</body></html>\n"


class ComparedSession(msgspec.Struct):
    """A session as a row of the table."""

    key: str
    title: str
    agent: str
    models: list[str]
    steps: int
    calls: int
    failed: int
    seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    files: int
    sentence: str
    """Where it diverges from the first one; empty for the first."""


async def show_page(request: Request) -> Response:
    """Return two sessions as one page, side by side."""
    key_a = request.path_params["a"]
    key_b = request.path_params["b"]
    difference = await run_in_threadpool(_compare, request, key_a, key_b)
    return StreamingResponse(
        _stream_page(difference),
        media_type="text/html; charset=utf-8",
        headers={"cache-control": "no-store"},
    )


def _stream_page(difference: Difference) -> Iterator[bytes]:
    for part in render_page(difference, _PAGE_HEAD, _PAGE_SCRIPT):
        yield part.encode("utf-8", "replace")
    yield _PAGE_END.encode()


async def show_table(request: Request) -> Response:
    """Return the sessions `key` as rows of a table, each compared with the first."""
    keys = list(dict.fromkeys(request.query_params.getlist("key")))
    if len(keys) > _MAX_SESSIONS:
        raise UsageError(f"at most {_MAX_SESSIONS} sessions can be compared")
    rows = [await run_in_threadpool(_describe, request, keys[0], key) for key in keys]
    return respond({"sessions": rows})


def _describe(request: Request, first_key: str, key: str) -> ComparedSession:
    workspace: Workspace = request.app.state.workspace
    difference = _compare(request, first_key, key)
    side = difference.b
    return ComparedSession(
        key=key,
        title=find_title(difference.transcripts[1]),
        agent=workspace.find(key).agent,
        models=side.models,
        steps=side.steps,
        calls=side.calls,
        failed=side.failed,
        seconds=side.seconds,
        input_tokens=side.tokens.get("input_tokens"),
        output_tokens=side.tokens.get("output_tokens"),
        cost=difference.transcripts[1].cost,
        files=len(side.files),
        sentence="" if key == first_key else difference.sentence,
    )


def _compare(request: Request, key_a: str, key_b: str) -> Difference:
    a = _read_transcript(request, key_a)
    b = _read_transcript(request, key_b)
    return compare(a, b, names=(key_a, key_b), level=_LEVEL)


def _read_transcript(request: Request, key: str) -> Transcript:
    """Return the steps of a session as its page shows it; a comparison may change them."""
    workspace: Workspace = request.app.state.workspace
    reading: Reading = request.app.state.reading
    snapshot: Snapshot = reading.open(key, workspace.find(key).session, workspace.build_context())
    builder = TranscriptBuilder(_LEVEL)
    builder.meet(snapshot.record)
    for event in snapshot.record.events:
        builder.take(event)
    transcript = builder.build_from_record()
    overview = snapshot.overview
    transcript.cost = overview.cost or overview.estimated_cost or None
    return transcript


SCREEN = Screen(
    "compare",
    "Compare",
    "M4 5h6v14H4zM14 5h6v14h-6M6.5 9h1M6.5 12h1M16.5 9h1M16.5 15h1",
    (
        Route("/web/compare", show_table),
        Route("/web/compare/{a}/{b}/page", show_page),
    ),
)
