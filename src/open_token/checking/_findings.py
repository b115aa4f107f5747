"""What a check finds and how it is told: an id, a place, a sentence; never the content of a
conversation."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MOST = 100
"""Problems of one kind that are told one by one; the rest is counted."""

Add = Callable[[str, str, str], None]
"""Takes the id of the check, the place and the message."""

_IDENTIFIER = re.compile(r"[A-Za-z0-9_./-]{1,24}")
_KINDS = {
    str: "a string",
    dict: "an object",
    list: "an array",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


class Check(NamedTuple):
    """One rule: how grave a breach is, what the rule says, why it is there, how to mend a
    breach."""

    severity: str
    title: str
    why: str
    help: str


class Problem(NamedTuple):
    """One breach of a rule."""

    id: str
    severity: str
    place: str
    message: str
    help: str


class Findings:
    """Collects what the checks report, in order."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, str]] = []
        self._counts: dict[str, int] = {}

    def add(self, id: str, place: str, message: str) -> None:
        """One more breach of the rule with that id."""
        count = self._counts[id] = self._counts.get(id, 0) + 1
        if count <= MOST:
            self._found.append((id, place, message))

    def problems(self, checks: Mapping[str, Check]) -> list[Problem]:
        """Everything that was found, with what the table says of it."""
        rest = [
            (check, "", f"{count - MOST} more of this kind")
            for check, count in self._counts.items()
            if count > MOST
        ]
        return [
            Problem(check, checks[check].severity, place, message, checks[check].help)
            for check, place, message in [*self._found, *rest]
        ]


def shown(value: Any) -> str:
    """A value for a message: itself when it is a short identifier or a small number, else only its
    kind."""
    if isinstance(value, str):
        return (
            f'"{value}"'
            if _IDENTIFIER.fullmatch(value)
            else "a string"
            if value
            else "an empty string"
        )
    if type(value) is int and abs(value) < 10**9:
        return str(value)
    return "null" if value is None else _KINDS.get(type(value), "no JSON value")


def key_shown(key: Any) -> str:
    """A key as a step of a place: itself when it is a short identifier."""
    return f".{key}" if isinstance(key, str) and _IDENTIFIER.fullmatch(key) else "[key]"
