"""The request that clients make most, answered before the framework, whose way takes longer than
all the rest."""

import re
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.server import sessions
from open_token.server.http import answers
from open_token.server.http.auth import caller_of, key_of
from open_token.server.refusals import Refused
from open_token.server.services import Services

_PATH = re.compile(r"/api/sessions/([^/]+)/messages")


class Quick:
    """Sends the turns of a session; the route of the same path says to OpenAPI what that is."""

    path = "/api/sessions/{session_id}/messages"
    """Under this name it is counted, as a route is."""

    def __init__(self, app: Any, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer, or let a request through that is about something else."""
        is_asked = (
            scope["type"] == "http"
            and scope["method"] in ("GET", "HEAD")
            and not scope.get("root_path")
        )
        found = _PATH.fullmatch(scope["path"]) if is_asked else None
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = self
        try:
            response = await self._messages(scope, found[1])
        except Refused as problem:
            response = await answers.refused(Request(scope), problem)
        except StoreError as problem:
            response = await answers.failed_store(Request(scope), problem)
        except LogError as problem:
            response = await answers.unfitting(Request(scope), problem)
        await response(scope, receive, send)

    async def _messages(self, scope: dict[str, Any], session_id: str) -> Response:
        caller = await caller_of(scope, self._services, key_of(scope))
        return answers.answer(await sessions.messages(self._services, caller.user.id, session_id))
