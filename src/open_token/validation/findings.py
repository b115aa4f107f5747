"""Checks and the problems that they report: an id, a place and a message, never content."""

from collections.abc import Mapping
from typing import NamedTuple

MAX_PER_CHECK = 100
"""Problems of one kind that are listed; the rest is only counted."""


class Check(NamedTuple):
    """One rule of the spec: its severity, what it says, why, and how to fix a violation."""

    severity: str
    title: str
    why: str
    help: str


class Problem(NamedTuple):
    """A violation of a rule."""

    id: str
    severity: str
    place: str
    message: str
    help: str


class Findings:
    """Collects what the checks report, in order."""

    def __init__(self) -> None:
        self._reported: list[tuple[str, str, str]] = []
        self._counts: dict[str, int] = {}

    def add(self, id: str, place: str, message: str) -> None:
        """Add a violation of the rule with that id."""
        count = self._counts.get(id, 0) + 1
        self._counts[id] = count
        if count <= MAX_PER_CHECK:
            self._reported.append((id, place, message))

    def problems(self, checks: Mapping[str, Check]) -> list[Problem]:
        """Return everything that was reported, with the severity and help of its check."""
        reported = list(self._reported)
        for check_id, count in self._counts.items():
            if count > MAX_PER_CHECK:
                reported.append((check_id, "", f"{count - MAX_PER_CHECK} more of this kind"))
        return [
            Problem(check, checks[check].severity, place, message, checks[check].help)
            for check, place, message in reported
        ]
