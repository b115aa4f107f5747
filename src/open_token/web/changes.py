"""Changes of sessions, as they happen: found by polling, sent as server-sent events."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from open_token.errors import OpenTokenError
from open_token.web.reading import Reading
from open_token.web.workspace import Workspace

_POLL_SECONDS = 0.15
_DISCOVERY_SECONDS = 20.0
_INDEX_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 15.0


class ChangeFeed:
    """Keeps a workspace up to date, and wakes whoever waits for a change."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._changed = asyncio.Event()
        self._watched: Counter[str] = Counter()
        """Sessions that somebody reads."""
        self._must_index = asyncio.Event()
        self._last_discovery = 0.0
        self.is_closed = False
        """Whether whoever waits should wait no longer."""

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._index())

    @contextlib.contextmanager
    def watch_session(self, key: str) -> Iterator[None]:
        """Look at a session in every round, however old it is."""
        self._watched[key] += 1
        try:
            yield
        finally:
            self._watched[key] -= 1
            self._watched += Counter()

    async def wait(self, seconds: float) -> bool:
        """Wait for a change; return whether there was one in this time."""
        changed = self._changed
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), seconds)
        return changed.is_set()

    def close(self) -> None:
        """End all streams: a server that stops waits for them."""
        self.is_closed = True
        self.notify()

    def notify(self) -> None:
        """Wake everybody who waits."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self) -> None:
        await self._discover()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            with contextlib.suppress(OpenTokenError):
                await self._poll()

    async def _poll(self) -> None:
        has_changed, has_new = await run_in_threadpool(self._workspace.poll)
        for key in list(self._watched):
            with contextlib.suppress(OpenTokenError):
                entry = self._workspace.find(key)
                has_changed |= await run_in_threadpool(self._workspace.check, entry.session)
        if has_changed:
            self._must_index.set()
            self.notify()
        if has_new or time.monotonic() - self._last_discovery > _DISCOVERY_SECONDS:
            await self._discover()

    async def _discover(self) -> None:
        has_changed = await run_in_threadpool(self._workspace.refresh)
        self._last_discovery = time.monotonic()
        self._must_index.set()
        if has_changed:
            self.notify()

    async def _index(self) -> None:
        while True:
            await self._must_index.wait()
            self._must_index.clear()
            reports = asyncio.create_task(self._report_progress())
            try:
                await run_in_threadpool(self._update_index)
            finally:
                reports.cancel()
            self.notify()
            await asyncio.sleep(_INDEX_SECONDS)

    def _update_index(self) -> None:
        try:
            if self._workspace.update_index():
                self._workspace.rebuild()
        except OpenTokenError as problem:
            self._workspace.index_state.problem = problem.what

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.notify()


async def stream_changes(request: Request) -> Response:
    """Stream the changes of the list, and of the session `key` since its `version`."""
    key = request.query_params.get("key", "")
    if key:
        events = _iter_page_changes(request, key, request.query_params.get("version", ""))
    else:
        events = _iter_list_changes(request)
    return StreamingResponse(
        events, media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _iter_list_changes(request: Request) -> AsyncIterator[bytes]:
    workspace: Workspace = request.app.state.workspace
    feed: ChangeFeed = request.app.state.changes
    sent = b""
    while not feed.is_closed:
        state = {"version": workspace.version, "index": workspace.index_state}
        encoded = msgspec.json.encode(state)
        if encoded != sent:
            yield b"data: " + encoded + b"\n\n"
            sent = encoded
        if not await feed.wait(_KEEP_ALIVE_SECONDS):
            yield b": still here\n\n"


async def _iter_page_changes(request: Request, key: str, version: str) -> AsyncIterator[bytes]:
    workspace: Workspace = request.app.state.workspace
    reading: Reading = request.app.state.reading
    feed: ChangeFeed = request.app.state.changes
    with feed.watch_session(key):
        while not feed.is_closed:
            try:
                entry = workspace.find(key)
                context = await run_in_threadpool(workspace.build_context)
                snapshot = await run_in_threadpool(reading.open, key, entry.session, context)
                change = await run_in_threadpool(reading.describe_change, snapshot, version)
            except OpenTokenError as problem:
                # A file that is just being replaced is there again in the next round.
                encoded = msgspec.json.encode({"error": problem.what})
                yield b"event: problem\ndata: " + encoded + b"\n\n"
                change = None
            if change is not None:
                version = change.version
                yield b"data: " + msgspec.json.encode(change) + b"\n\n"
            while not await feed.wait(_KEEP_ALIVE_SECONDS) and not feed.is_closed:
                yield b": still here\n\n"


ROUTES = (Route("/web/changes", stream_changes),)
