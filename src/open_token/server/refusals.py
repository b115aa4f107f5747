"""What a client is told when it asks for something it cannot have: a status, a code and words,
never content."""

from open_token.errors import StoreError
from open_token.server.store.interface import ConflictError, FencedError, NotFoundError


class Refused(Exception):
    """A request that is not carried out; REST answers with the status and `detail`, sockets with
    `system:error`."""

    def __init__(self, status: int, detail: str, code: str = "refused") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code


def missing(what: str = "session") -> Refused:
    """It is not there, or not for this user; nobody learns which."""
    return Refused(404, f"there is no such {what}", "not_found")


def bad(detail: str, code: str = "bad_request") -> Refused:
    """It does not make sense, and why."""
    return Refused(422, detail, code)


def busy(detail: str, code: str = "conflict") -> Refused:
    """Not now: something else is under way."""
    return Refused(409, detail, code)


def refusal_of(problem: StoreError) -> Refused:
    """What a failure of the store means for the one who asked."""
    if isinstance(problem, NotFoundError):
        return Refused(404, problem.what, "not_found")
    if isinstance(problem, ConflictError | FencedError):
        return Refused(409, problem.what, problem.code)
    status = 422 if problem.code in ("store.value", "store.json") else 503
    return Refused(status, problem.what, problem.code)
