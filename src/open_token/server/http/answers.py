"""How answers are sent: JSON that is encoded once, by msgspec, and errors that are always
`{"detail": ...}`."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.model.session_types import encode
from open_token.server.refusals import Refused, refusal_of

_PLAIN = {
    404: "there is no such route; /openapi.json lists those that there are",
    405: "this route has no such method; /openapi.json lists those that there are",
}


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON; bytes are JSON already."""
    body = value if isinstance(value, bytes) else encode(value)
    return Response(body, status, headers, media_type="application/json")


async def refused(_: Request, problem: Exception) -> Response:
    """A refusal of ours."""
    assert isinstance(problem, Refused)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "5"}}.get(problem.status)
    return answer({"detail": problem.detail, "code": problem.code}, problem.status, headers)


async def failed_store(request: Request, problem: Exception) -> Response:
    """What the store could not do."""
    assert isinstance(problem, StoreError)
    return await refused(request, refusal_of(problem))


async def unfitting(request: Request, problem: Exception) -> Response:
    """A step that does not fit the log as it is by now."""
    assert isinstance(problem, LogError)
    return await refused(request, Refused(409, f"this does not fit the session: {problem}", "log"))


async def invalid(request: Request, problem: Exception) -> Response:
    """A body or a parameter of the wrong shape: where it is wrong and how, never what was sent."""
    assert isinstance(problem, RequestValidationError)
    faults = problem.errors()[:5]
    places = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults]
    # curl calls every body a form unless it is told otherwise, and a form is not looked into.
    if any(fault["loc"] == ("body",) for fault in faults) and "json" not in request.headers.get(
        "content-type", ""
    ):
        places.append("a JSON body needs the header Content-Type: application/json")
    return answer(
        {"detail": "; ".join(places) or "the request is not valid", "code": "invalid"}, 422
    )


async def plain_error(_: Request, problem: Exception) -> Response:
    """What the framework refuses: no such route, wrong method."""
    assert isinstance(problem, HTTPException)
    headers = dict(problem.headers) if problem.headers else None
    words = _PLAIN.get(problem.status_code, str(problem.detail))
    return answer({"detail": words, "code": "http"}, problem.status_code, headers)
