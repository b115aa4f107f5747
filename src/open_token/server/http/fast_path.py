"""A fast path for `GET /api/sessions/{session_id}/messages`, in front of the framework.

This is the most frequent request, and its answer is usually cached bytes. Routing and dependency
injection of FastAPI take longer than everything else: without this middleware the route serves 40
to 50 % fewer requests per second (measured on loopback with 3 and with 200 turns)."""

import re
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.server.core import sessions
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.http import responses
from open_token.server.http.auth import authenticate, parse_bearer_key

_PATH = re.compile(r"/api/sessions/([^/]+)/messages")


class MessagesFastPath:
    """Answers the request itself; the route of the same path is its OpenAPI description."""

    path = "/api/sessions/{session_id}/messages"
    """Metrics and logs read it as the path of the route."""

    def __init__(self, app: Any, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer a request for messages, or pass any other request on."""
        match = _match_request(scope)
        if match is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = self
        try:
            response = await self._list_messages(scope, match[1])
        except ApiError as problem:
            response = await responses.handle_api_error(Request(scope), problem)
        except StoreError as problem:
            response = await responses.handle_store_error(Request(scope), problem)
        except LogError as problem:
            response = await responses.handle_log_fault(Request(scope), problem)
        await response(scope, receive, send)

    async def _list_messages(self, scope: dict[str, Any], session_id: str) -> Response:
        caller = await authenticate(scope, self._services, parse_bearer_key(scope))
        messages = await sessions.list_messages(self._services, caller.user.id, session_id)
        return responses.json_response(messages)


def _match_request(scope: dict[str, Any]) -> re.Match[str] | None:
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return None
    if scope.get("root_path"):
        return None
    return _PATH.fullmatch(scope["path"])
