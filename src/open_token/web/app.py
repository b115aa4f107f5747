"""The application: its shell, its assets, its screens."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from functools import cache
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from open_token.errors import OpenTokenError
from open_token.web.cards import CardShelf
from open_token.web.changes import ROUTES, ChangeFeed
from open_token.web.reading import Reading
from open_token.web.responses import handle_error, handle_failure, handle_http_error
from open_token.web.screens import SCREENS
from open_token.web.sharing import Sharing
from open_token.web.shell import render_shell
from open_token.web.workspace import Workspace
from open_token.writers.html.assets import load_comparison_style, load_style

_ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def build_app(workspace: Workspace) -> Starlette:
    """Build the application on the sessions of this machine; access control goes around it.

    `state.has_server` says whether the session server runs in the same process.
    """

    async def show_shell(request: Request) -> Response:
        has_server = request.app.state.has_server
        screens = [screen for screen in SCREENS if has_server or not screen.needs_server]
        name = request.path_params.get("screen", screens[0].name)
        if name not in {screen.name for screen in screens}:
            raise HTTPException(404, "there is no such page")
        return Response(
            render_shell(screens, name),
            media_type="text/html; charset=utf-8",
            headers={"cache-control": "no-store"},
        )

    app = Starlette(
        routes=[
            *(route for screen in SCREENS for route in screen.routes),
            *ROUTES,
            Route("/web/assets/{path:path}", show_asset),
            Route("/", show_shell),
            Route("/{screen}", show_shell),
            Route("/{screen}/{rest:path}", show_shell),
        ],
        exception_handlers={
            OpenTokenError: handle_error,
            HTTPException: handle_http_error,
            Exception: handle_failure,
        },
        lifespan=_run_feed,
    )
    app.state.workspace = workspace
    app.state.has_server = False
    app.state.reading = Reading()
    app.state.sharing = Sharing(workspace, app.state.reading)
    app.state.cards = CardShelf()
    app.state.changes = ChangeFeed(workspace)
    return app


@contextlib.asynccontextmanager
async def _run_feed(app: Starlette) -> AsyncIterator[None]:
    task = asyncio.create_task(app.state.changes.run())
    try:
        yield
    finally:
        task.cancel()
        app.state.workspace.close()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@cache
def load_assets() -> dict[str, bytes]:
    """Return every file of style and script by its name."""
    folder = resources.files("open_token").joinpath("web")
    assets = {
        "page.css": load_style().encode(),
        "comparison.css": load_comparison_style().encode(),
        "page.js": folder.joinpath("page.js").read_bytes(),
    }
    own = folder.joinpath("assets")
    for directory, prefix in ((own, ""), (own.joinpath("screens"), "screens/")):
        for file in directory.iterdir():
            if file.is_file() and not file.name.startswith("."):
                assets[prefix + file.name] = file.read_bytes()
    return assets


async def show_asset(request: Request) -> Response:
    """Return a file of style or script; the browser asks each time whether it has changed."""
    path = request.path_params["path"]
    body = load_assets().get(path)
    if body is None:
        raise HTTPException(404, "there is no such file")
    suffix = path[path.rfind(".") :]
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    media_type = _ASSET_TYPES.get(suffix, "application/octet-stream")
    return Response(body, media_type=f"{media_type}; charset=utf-8", headers=headers)
