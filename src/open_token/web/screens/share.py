"""Share: a session as it will be published, with a decision on everything that was found in it."""

import tempfile
from collections.abc import Iterator
from typing import IO, BinaryIO, cast
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from open_token.errors import UsageError
from open_token.web.reading import Snapshot
from open_token.web.responses import read_body, respond
from open_token.web.screens.definition import Screen
from open_token.web.sharing import SUFFIXES, Draft, Sharing
from open_token.web.workspace import Entry, Workspace

_CHUNK_SIZE = 1 << 18
_PAGE_HEAD = (
    '<link rel="stylesheet" href="/web/assets/page.css">'
    '<link rel="stylesheet" href="/web/assets/share_page.css">'
)
_PAGE_SCRIPT = (
    '<script src="/web/assets/page.js"></script>'
    '<script type="module" src="/web/assets/share_page.js"></script>'
)


class Publication(msgspec.Struct):
    """How a session is to be written."""

    to: str
    is_signed: bool = False
    is_confirmed: bool = False
    """Whether the person knows that findings are undecided: they are masked."""


class Question(msgspec.Struct):
    """The finding whose value is to be shown."""

    finding: str


async def describe_draft(request: Request) -> Response:
    """Return what was decided about a session so far, and what was found in it."""
    sharing, entry = _find(request)
    return respond(await run_in_threadpool(sharing.describe, entry))


async def change_draft(request: Request) -> Response:
    """Replace the draft of a session; return what it makes of it."""
    sharing, entry = _find(request)
    draft = await read_body(request, Draft)
    return respond(await run_in_threadpool(sharing.change, entry, draft))


async def show_page(request: Request) -> Response:
    """Return the page of a session as it would be published."""
    sharing, entry = _find(request)
    page = await run_in_threadpool(sharing.open_page, entry)
    return StreamingResponse(
        _stream_page(page),
        media_type="text/html; charset=utf-8",
        headers={"cache-control": "no-store"},
    )


def _stream_page(page: Snapshot) -> Iterator[bytes]:
    for part in page.render(_PAGE_HEAD, _PAGE_SCRIPT):
        yield part.encode("utf-8", "replace")


async def describe_change(request: Request) -> Response:
    """Return what makes a page of the version `version` show the draft as it is now."""
    sharing, entry = _find(request)
    version = request.query_params.get("version", "")
    return respond(await run_in_threadpool(sharing.describe_change, entry, version))


async def reveal_value(request: Request) -> Response:
    """Return the value of a finding: its person has asked to see it."""
    sharing, entry = _find(request)
    asked = await read_body(request, Question)
    return respond({"value": await run_in_threadpool(sharing.reveal, entry, asked.finding)})


async def publish(request: Request) -> Response:
    """Return the file; while findings are undecided, only after a confirmation."""
    sharing, entry = _find(request)
    wanted = await read_body(request, Publication)
    if wanted.to not in SUFFIXES:
        raise UsageError(f"to takes {', '.join(SUFFIXES)}")
    undecided = await run_in_threadpool(sharing.count_undecided, entry)
    if undecided and not wanted.is_confirmed:
        return respond({"error": "not everything is decided", "undecided": undecided}, 409)
    out = await run_in_threadpool(_write, sharing, entry, wanted)
    name = await run_in_threadpool(sharing.choose_name, entry, wanted.to)
    return StreamingResponse(
        _read_chunks(out),
        media_type="application/octet-stream",
        headers={
            "cache-control": "no-store",
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        },
    )


def _write(sharing: Sharing, entry: Entry, wanted: Publication) -> IO[bytes]:
    out = tempfile.TemporaryFile(prefix="open-token-")  # noqa: SIM115 - closed when it was sent
    try:
        sharing.publish(entry, wanted.to, cast(BinaryIO, out), is_signed=wanted.is_signed)
    except BaseException:
        out.close()
        raise
    out.seek(0)
    return out


def _read_chunks(out: IO[bytes]) -> Iterator[bytes]:
    with out:
        while chunk := out.read(_CHUNK_SIZE):
            yield chunk


def _find(request: Request) -> tuple[Sharing, Entry]:
    workspace: Workspace = request.app.state.workspace
    sharing: Sharing = request.app.state.sharing
    return sharing, workspace.find(request.path_params["key"])


SCREEN = Screen(
    "share",
    "Share",
    "M12 15V4M8 8l4-4 4 4M5 13v6h14v-6",
    (
        Route("/web/share/{key}", describe_draft),
        Route("/web/share/{key}", change_draft, methods=["POST"]),
        Route("/web/share/{key}/page", show_page),
        Route("/web/share/{key}/change", describe_change),
        Route("/web/share/{key}/value", reveal_value, methods=["POST"]),
        Route("/web/share/{key}/publish", publish, methods=["POST"]),
    ),
    in_menu=False,
)
