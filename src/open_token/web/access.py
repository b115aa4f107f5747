"""Who may use the application: browsers with its cookie, on pages of its own origin.

A one-time link gives a browser the cookie, so that other users of the machine, who can connect to
the same port, get nothing. Other websites in the same browser get nothing either: the cookie is not
sent with their requests (SameSite), their names are not served (Host), and their requests are
refused (Origin, Sec-Fetch-Site, content type).
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from html import escape
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

ENTRY_PATH = "/enter"
_MAX_OPEN_LINKS = 20
_SAFE_METHODS = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class Access:
    """The cookie of one process, and the links that are still open."""

    def __init__(
        self,
        hosts: Iterable[str],
        port: int,
        *,
        remedy: str = "Run `open-token web` in a terminal and open the link that it prints.",
        on_use: Callable[[], None] = lambda: None,
    ) -> None:
        self.remedy = remedy
        """How to get a link."""
        self._on_use = on_use
        self.hosts = frozenset(f"{host}:{port}" for host in hosts)
        # Cookies do not distinguish ports: two processes must not overwrite each other's.
        self.cookie_name = f"open_token_{port}"
        self._cookie = secrets.token_urlsafe(32)
        self._links: list[str] = []

    def create_link(self) -> str:
        """Return the path of a link that lets one browser in, once."""
        token = secrets.token_urlsafe(32)
        self._links = [*self._links[1 - _MAX_OPEN_LINKS :], token]
        return f"{ENTRY_PATH}?token={token}"

    def use_link(self, token: str) -> bool:
        """Return whether a link is open, and close it."""
        for known in self._links:
            if hmac.compare_digest(known.encode(), token.encode()):
                self._links.remove(known)
                self._on_use()
                return True
        return False

    def set_cookie(self, response: Response) -> None:
        """Give a browser the cookie; it ends with the browser."""
        response.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="strict")

    def has_cookie(self, request: Request) -> bool:
        """Return whether a request has the cookie of this process."""
        cookie = request.cookies.get(self.cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self._cookie.encode())


class AccessControl:
    """ASGI middleware that answers every request that may not pass, and adds security headers."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Pass on a request that is allowed, else answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in SECURITY_HEADERS.items()
                        if name.encode() not in present
                    ),
                ]
            await send(message)

        refusal = self._check(scope)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, send_with_headers)

    def _check(self, scope: MutableMapping[str, Any]) -> Response | None:
        """Return the answer to a request that may not pass; None if it may."""
        # A websocket request has the same headers; Request only accepts the other type.
        request = Request({**scope, "type": "http", "method": scope.get("method", "GET")})
        if request.headers.get("host", "") not in self._access.hosts:
            return _refuse(request, 403, "wrong host", "Open the address that the command printed.")
        if scope["path"] == ENTRY_PATH and scope.get("method") == "GET":
            return self._enter(request)
        if not self._access.has_cookie(request):
            return _refuse(
                request,
                401,
                "not signed in",
                f"{self._access.remedy} Each link works once, in one browser.",
            )
        if not self._is_same_origin(request):
            return _refuse(request, 403, "request of another website", "")
        is_own = scope["path"].startswith("/web/")
        if is_own and request.method not in _SAFE_METHODS and not _is_json(request):
            return _refuse(request, 415, "requests that change something must be JSON", "")
        return None

    def _enter(self, request: Request) -> Response:
        token = parse_qs(request.url.query).get("token", [""])[0]
        if self._access.use_link(token):
            response: Response = RedirectResponse("/", 303)
            self._access.set_cookie(response)
            return response
        if self._access.has_cookie(request):
            return RedirectResponse("/", 303)
        return _refuse(
            request,
            403,
            "this link has been used",
            f"Each link works once. {self._access.remedy}",
        )

    def _is_same_origin(self, request: Request) -> bool:
        site = request.headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none"):
            return False
        origin = request.headers.get("origin")
        if origin is None:
            # Browsers send it with every request that changes something. A program that is no
            # browser has the cookie because its user gave it one.
            return request.method in _SAFE_METHODS or "sec-fetch-site" not in request.headers
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and host == request.headers.get("host")


def _is_json(request: Request) -> bool:
    content_type = request.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _refuse(request: Request, status: int, what: str, remedy: str) -> Response:
    """Answer a browser with a page, a script with JSON."""
    headers = {"cache-control": "no-store"}
    if "text/html" in request.headers.get("accept", ""):
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            "<title>Open-Token</title></head>"
            f"<body><main><h1>{escape(what.capitalize())}</h1><p>{escape(remedy)}</p></main></body>"
            "</html>"
        )
        return HTMLResponse(page, status, headers=headers)
    return JSONResponse({"error": what, "help": remedy}, status, headers=headers)
