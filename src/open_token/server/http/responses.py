"""Responses: JSON encoded by msgspec, and exception handlers that answer `{"detail", "code"}`."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.model.session_types import encode
from open_token.server.errors import ApiError, to_api_error

DEFAULT_LIMIT = 20
_MAX_REPORTED_FAULTS = 5
_HTTP_DETAILS = {
    404: "no such route; see /openapi.json",
    405: "method not allowed on this route; see /openapi.json",
}
_ERROR_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "5"}}


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Build a JSON response; bytes are taken as JSON."""
    body = value if isinstance(value, bytes) else encode(value)
    return Response(body, status, headers, media_type="application/json")


def list_response(items: list[Any], limit: int | None, offset: int | None) -> Response:
    """Build a list: a page of it if `limit` or `offset` is given, else an array of all."""
    if limit is None and offset is None:
        return json_response(items)
    limit = DEFAULT_LIMIT if limit is None else limit
    return page_response(items[offset or 0 :][:limit], len(items), limit, offset or 0)


def page_response(items: list[Any], total: int, limit: int, offset: int) -> Response:
    """Build a page of a list."""
    return json_response({"items": items, "total": total, "limit": limit, "offset": offset})


async def handle_api_error(request: Request, problem: Exception) -> Response:
    """Answer with the status of an ApiError."""
    assert isinstance(problem, ApiError)
    headers = _ERROR_HEADERS.get(problem.status)
    body: dict[str, Any] = {"detail": problem.detail, "code": problem.code}
    if request.url.path.startswith("/v1/"):
        # Clients of OpenAI's API look for the message here.
        kind = "invalid_request_error" if problem.status < 500 else "server_error"
        error = {"message": problem.detail, "type": kind, "code": problem.code, "param": None}
        body["error"] = error
    return json_response(body, problem.status, headers)


async def handle_store_error(request: Request, problem: Exception) -> Response:
    """Answer a failure of the store."""
    assert isinstance(problem, StoreError)
    return await handle_api_error(request, to_api_error(problem))


async def handle_log_fault(request: Request, problem: Exception) -> Response:
    """Answer a step that does not fit the log."""
    assert isinstance(problem, LogError)
    error = ApiError(409, f"conflicts with the state of the session: {problem}", "log")
    return await handle_api_error(request, error)


async def handle_validation_error(request: Request, problem: Exception) -> Response:
    """Answer invalid bodies and parameters: the path and the kind of error, never the value."""
    assert isinstance(problem, RequestValidationError)
    faults = problem.errors()[:_MAX_REPORTED_FAULTS]
    details = []
    for fault in faults:
        path = ".".join(str(part) for part in fault["loc"])
        details.append(f"{path}: {fault['msg']}")
    # curl declares every body as a form by default, and the framework does not parse it as JSON.
    is_body_invalid = any(fault["loc"] == ("body",) for fault in faults)
    if is_body_invalid and "json" not in request.headers.get("content-type", ""):
        details.append("a JSON body needs the header Content-Type: application/json")
    detail = "; ".join(details) or "invalid request"
    return json_response({"detail": detail, "code": "invalid"}, 422)


async def handle_http_exception(_: Request, problem: Exception) -> Response:
    """Answer errors of the framework, such as an unknown route."""
    assert isinstance(problem, HTTPException)
    headers = dict(problem.headers) if problem.headers else None
    detail = _HTTP_DETAILS.get(problem.status_code, str(problem.detail))
    return json_response({"detail": detail, "code": "http"}, problem.status_code, headers)
