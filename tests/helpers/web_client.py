"""The web application without a browser or a socket: requests as a browser would send them."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.web.access import Access, AccessControl, App
from open_token.web.app import build_app
from open_token.web.workspace import Workspace

HOST = "127.0.0.1:8021"


class Answer(NamedTuple):
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class WebClient:
    """An application on the sessions of a home, and a browser that has its cookie."""

    def __init__(self, home: Path) -> None:
        env = {"HOME": str(home), "OPEN_TOKEN_HOME": str(home / "open-token")}
        self.workspace = Workspace(env, home, home, ("false",))
        self.access = Access(("127.0.0.1", "localhost"), 8021)
        self.app = build_app(self.workspace)
        self._controlled = AccessControl(self.app, self.access)
        self.cookie = self.enter(self.access.create_link())

    def enter(self, link: str) -> str:
        """Open a link; return the cookie that it gives."""
        answer = self.send(link, cookie="")
        return answer.headers.get("set-cookie", "").partition(";")[0]

    def index(self) -> None:
        """Find and index the sessions, as the application does in the background."""
        self.workspace.refresh()
        self.workspace.update_index()
        self.workspace.rebuild()

    def get(self, path: str) -> Answer:
        """Ask for a path as a script of the application does."""
        return self.send(path)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        """Send JSON as a script of the application does."""
        given = {"content-type": "application/json", "origin": f"http://{HOST}", **headers}
        return self.send(path, "POST", msgspec.json.encode(body), **given)

    def send(
        self,
        path: str,
        method: str = "GET",
        body: bytes = b"",
        cookie: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send a request; without a cookie it is the one of this client."""
        sent = {"host": HOST, **{name.replace("_", "-"): text for name, text in headers.items()}}
        used = self.cookie if cookie is None else cookie
        if used:
            sent["cookie"] = used
        return asyncio.run(call(self._controlled, path, method, body, sent))


async def call(app: App, target: str, method: str, body: bytes, headers: dict[str, str]) -> Answer:
    """Send one request to an application, and return its whole answer."""
    path, _, query = target.partition("?")
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8021),
    }
    sent: list[MutableMapping[str, Any]] = []
    is_sent = False

    async def receive() -> MutableMapping[str, Any]:
        nonlocal is_sent
        if is_sent:
            await asyncio.sleep(60)
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return Answer(
        start["status"],
        {name.decode().lower(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )
