"""Errors that users see: what is wrong, where, and what to do; never the content itself."""

from typing import Any


class OpenTokenError(Exception):
    """An error with a message, a position, a remedy, an exit code and a stable code for scripts."""

    exit_code = 3
    code = "error"

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        help: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.help = help
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        # With all fields, so that an error can come from another process.
        return _rebuild_error, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        parts = [f"error: {self.what}"]
        if self.where:
            parts.append(f"  --> {self.where}")
        if self.help:
            parts.append(f"help: {self.help}")
        return "\n".join(parts)


def _rebuild_error(
    kind: type[OpenTokenError], args: tuple[Any, ...], fields: dict[str, Any]
) -> OpenTokenError:
    problem = kind.__new__(kind, *args)
    problem.__dict__.update(fields)
    return problem


class UsageError(OpenTokenError):
    """A command, an option or a setting is invalid."""

    exit_code = 2
    code = "usage"


class MultipleConversationsError(UsageError):
    """The input holds several conversations, and none was selected."""

    code = "input.several"

    def __init__(
        self, what: str, *, found: list[Any], where: str | None = None, help: str | None = None
    ) -> None:
        super().__init__(what, where=where, help=help)
        self.found = found


class InputError(OpenTokenError):
    """The input cannot be read."""

    code = "input"


class OutputError(OpenTokenError):
    """The output cannot be written."""

    code = "output"


class StoreError(OpenTokenError):
    """The server's data cannot be read or written."""

    code = "store"


class SizeLimitError(OpenTokenError):
    """The export cannot be made as small as requested."""

    code = "max-bytes"

    def __init__(self, what: str, *, smallest: int, help: str | None = None) -> None:
        super().__init__(what, help=help)
        self.smallest = smallest


class SigningError(OpenTokenError):
    """An export cannot be signed."""

    code = "sign"
