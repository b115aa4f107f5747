"""Where a session runs, as every record of some agents repeats it: folder, branch, version, id."""

from typing import Any

from open_token.formats.shared.fields import JsonObject, as_text

_FIELDS = {
    "cwd": "cwd",
    "gitBranch": "git_branch",
    "version": "version",
    "sessionId": "session_id",
}
"""The fields of a record, and the names of the facts that they become."""


class RecordContext:
    """The facts that the records of a session have given so far."""

    def __init__(self) -> None:
        self.facts: JsonObject = {}
        self._last_values: tuple[Any, ...] = ()

    def update(self, record: JsonObject) -> JsonObject | None:
        """Return all facts of a record if one of them is new or has changed, else None."""
        values = tuple(record.get(field) for field in _FIELDS)
        # Nearly all records repeat the one before them.
        if values == self._last_values:
            return None
        self._last_values = values
        facts: JsonObject = {}
        for field, name in _FIELDS.items():
            text = as_text(record.get(field))
            if text:
                facts[name] = text
        if facts.items() <= self.facts.items():
            return None
        self.facts |= facts
        return facts
