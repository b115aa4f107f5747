"""Errors that are reported to clients: an HTTP status, a stable code and a message, never content."""

import logging
import traceback

from open_token.errors import StoreError
from open_token.server.store.interface import ConflictError, FencedError, NotFoundError


class ApiError(Exception):
    """A request that was rejected.

    REST answers with `status` and `detail`, sockets emit `system:error`."""

    def __init__(self, status: int, detail: str, code: str = "refused") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code


def not_found(what: str = "session") -> ApiError:
    """Return a 404; it does not reveal whether the object exists but belongs to another user."""
    return ApiError(404, f"no such {what}", "not_found")


def bad_request(detail: str, code: str = "bad_request") -> ApiError:
    """Return a 422 for invalid input."""
    return ApiError(422, detail, code)


def conflict(detail: str, code: str = "conflict") -> ApiError:
    """Return a 409: the request does not fit the current state."""
    return ApiError(409, detail, code)


def to_api_error(problem: StoreError) -> ApiError:
    """Map a store failure to the error that the client sees."""
    if isinstance(problem, NotFoundError):
        return ApiError(404, problem.what, "not_found")
    if isinstance(problem, ConflictError | FencedError):
        return ApiError(409, problem.what, problem.code)
    status = 422 if problem.code in ("store.value", "store.json") else 503
    return ApiError(status, problem.what, problem.code)


def log_exception(log: logging.Logger, what: str, problem: BaseException) -> None:
    """Log an unexpected exception by type and stack.

    Its message is left out because it may hold content of a session."""
    stack = "".join(traceback.format_tb(problem.__traceback__))
    log.error("%s: %s\n%s", what, type(problem).__name__, stack)
