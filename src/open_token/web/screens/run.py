"""Run: chats with agents of the session server, which runs in the same process.

Its module speaks to the routes of the server itself; here is what only the application can do.
"""

import tempfile
from collections.abc import Iterator
from typing import IO

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from open_token.context import Context
from open_token.library.discovery import Session, open_session
from open_token.pipeline import export
from open_token.web.cards import CardShelf
from open_token.web.live_rows import Part, render_part
from open_token.web.responses import read_body, respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Workspace

_CHUNK_SIZE = 1 << 18
_CARD_HEADERS = {
    "cache-control": "no-store",
    # Whoever opens its address gets no more than the frame does: no script, no network.
    "content-security-policy": (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        "frame-ancestors 'self'"
    ),
}


class RowsRequest(msgspec.Struct):
    """What is to be rendered."""

    parts: list[Part]


class CardRequest(msgspec.Struct):
    """The HTML of a card, which an agent wrote."""

    html: str


async def render_rows(request: Request) -> Response:
    """Return the rows of texts, thoughts and tool calls, as a page has them."""
    asked = await read_body(request, RowsRequest)
    rows = await run_in_threadpool(lambda: [render_part(part) for part in asked.parts])
    return respond({"rows": rows})


async def add_card(request: Request) -> Response:
    """Keep a card; return the address for its frame."""
    asked = await read_body(request, CardRequest)
    cards: CardShelf = request.app.state.cards
    return respond({"path": f"/web/run/cards/{cards.add(asked.html)}"})


async def show_card(request: Request) -> Response:
    """Return a card, which can do nothing but be looked at."""
    cards: CardShelf = request.app.state.cards
    html = cards.get(request.path_params["name"])
    if html is None:
        raise HTTPException(404, "this card is not kept any more")
    body = f'<!doctype html><meta charset="utf-8">{html}'.encode("utf-8", "replace")
    return Response(body, media_type="text/html; charset=utf-8", headers=_CARD_HEADERS)


async def export_session(request: Request) -> Response:
    """Return a session of this machine as a document, for the server to import."""
    workspace: Workspace = request.app.state.workspace
    session = workspace.find(request.path_params["key"]).session
    context = await run_in_threadpool(workspace.build_context)
    out = await run_in_threadpool(_export, session, context)
    return StreamingResponse(_read_chunks(out), media_type="application/x-ndjson")


def _export(session: Session, context: Context) -> IO[bytes]:
    out = tempfile.TemporaryFile(prefix="open-token-")  # noqa: SIM115 - closed when it was sent
    try:
        export(open_session(session), out, context, session.reader)
    except BaseException:
        out.close()
        raise
    out.seek(0)
    return out


def _read_chunks(out: IO[bytes]) -> Iterator[bytes]:
    with out:
        while True:
            chunk = out.read(_CHUNK_SIZE)
            if not chunk:
                return
            yield chunk


SCREEN = Screen(
    "run",
    "Run",
    "M7 4l12 8-12 8z",
    (
        Route("/web/run/rows", render_rows, methods=["POST"]),
        Route("/web/run/cards", add_card, methods=["POST"]),
        Route("/web/run/cards/{name}", show_card),
        Route("/web/run/sessions/{key}", export_session),
    ),
    needs_server=True,
)
