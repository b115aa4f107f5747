"""The web application on the address of the session server, with an access of its own.

Programs reach the server with their keys as before. A browser that opened a one-time link reaches
the application, and through it the server with the rights of the owner.
"""

import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

from starlette.applications import Starlette

from open_token.server.core.services import Services
from open_token.server.lending import App, lend_key
from open_token.web.access import ENTRY_PATH, Access, AccessControl
from open_token.web.screens import SCREENS

_KEY_NAME = "web application of serve"
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_OWN_SEGMENTS = {"", "web", ENTRY_PATH.strip("/"), *(screen.name for screen in SCREENS)}
_REMEDY = "Open the link that `open-token serve` printed last."


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address: the sessions are its user's."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class EmbeddedApplication:
    """ASGI application: the web application where its paths are asked for, else the server."""

    def __init__(
        self,
        application: Starlette,
        services: Services,
        server: App,
        address: str,
        on_link: Callable[[str], None],
    ) -> None:
        self._application = application
        self._services = services
        self._server = server
        self._on_link = on_link
        self._stack = contextlib.AsyncExitStack()
        self._server_of_owner: App | None = None
        self._address = address
        port = int(address.rpartition(":")[2])
        self._access = Access(_HOSTS, port, remedy=_REMEDY, on_use=self.show_link)
        self._controlled = AccessControl(self._show, self._access)
        self._controlled_server = AccessControl(self._call_server, self._access)
        application.state.has_server = True

    def show_link(self) -> None:
        """Make a new link, and show it to whoever runs the server."""
        self._on_link(self._address + self._access.create_link())

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request of a browser or of a program."""
        if scope["type"] not in ("http", "websocket"):
            await self._server(scope, receive, send)
        elif scope["path"].split("/")[1] in _OWN_SEGMENTS:
            await self._controlled(scope, receive, send)
        elif self._is_from_application(scope):
            await self._controlled_server(scope, receive, send)
        else:
            await self._server(scope, receive, send)

    def _is_from_application(self, scope: MutableMapping[str, Any]) -> bool:
        """Return whether a request has our cookie instead of a key."""
        headers = dict(scope["headers"])
        has_cookie = self._access.cookie_name.encode() in headers.get(b"cookie", b"")
        return has_cookie and b"authorization" not in headers

    async def _show(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await self._start()
        await self._application(scope, receive, send)

    async def _call_server(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await self._start()
        assert self._server_of_owner is not None
        await self._server_of_owner(scope, receive, send)

    async def _start(self) -> None:
        """Watch the sessions and lend a key, once somebody uses the application."""
        if self._server_of_owner is not None:
            return
        # Set before anything is awaited, so that a second request does not start it again.
        self._server_of_owner = self._server
        lent = lend_key(self._services, self._server, _KEY_NAME)
        self._server_of_owner = await self._stack.enter_async_context(lent)
        running = self._application.router.lifespan_context(self._application)
        await self._stack.enter_async_context(running)

    def stop_streams(self) -> None:
        """End the streams of browsers, for which a server that stops would wait."""
        self._application.state.changes.close()

    async def close(self) -> None:
        """Stop watching, and take the key back."""
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def embed_application(
    application: Starlette,
    services: Services,
    server: App,
    address: str,
    on_link: Callable[[str], None],
) -> AsyncIterator[EmbeddedApplication]:
    """Put the web application in front of the server; each link that opens it goes to `on_link`."""
    embedded = EmbeddedApplication(application, services, server, address, on_link)
    try:
        yield embedded
    finally:
        await embedded.close()
