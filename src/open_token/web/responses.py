"""Answers of the application: JSON, and errors in words."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from open_token.errors import OpenTokenError, UsageError

Endpoint = Callable[[Request], Awaitable[Response]]
_MAX_BODY = 1 << 22
_NOT_STORED = {"cache-control": "no-store"}
_STATUS = {"web.session": 404}


def respond(value: Any, status: int = 200) -> Response:
    """Answer with JSON."""
    body = msgspec.json.encode(value)
    return Response(body, status, media_type="application/json", headers=_NOT_STORED)


async def read_body(request: Request, kind: type[Any]) -> Any:
    """Return the JSON body of a request; raises UsageError if it is not what is expected."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            raise UsageError("the request is too large")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise UsageError("the request is not valid") from None


async def handle_error(request: Request, problem: Exception) -> Response:
    """Answer with what is wrong and what to do about it."""
    assert isinstance(problem, OpenTokenError)
    status = _STATUS.get(problem.code, 400 if isinstance(problem, UsageError) else 422)
    return respond({"error": problem.what, "where": problem.where, "help": problem.help}, status)


async def handle_http_error(request: Request, problem: Exception) -> Response:
    """Answer for a path or a method that there is not."""
    assert isinstance(problem, HTTPException)
    return respond({"error": str(problem.detail).lower(), "help": None}, problem.status_code)


async def handle_failure(request: Request, problem: Exception) -> Response:
    """Answer to a mistake of ours, without saying what the data was."""
    kind = re.sub("[^A-Za-z]", "", type(problem).__name__)
    return respond(
        {
            "error": f"this is a defect of Open-Token ({kind})",
            "help": "the terminal in which `open-token web` runs has no more; please report it",
        },
        500,
    )
