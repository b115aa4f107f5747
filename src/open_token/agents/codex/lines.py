"""Lines of a Codex rollout in one form, whichever year wrote them."""

from collections.abc import Iterator
from typing import Any

from open_token.agents.codex.shapes import is_bare_header, is_whole_session
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source


class Line:
    """One record: its number, its kind, what it holds, and what pairing found out about it."""

    where = "line"
    """What a note calls a record."""
    is_mirror = False
    """It shows what another line holds; it is not told again."""
    is_mirrored = False
    """Another line shows it to the person."""
    is_injected = False
    """A user's message that no person typed."""
    is_held = False
    """It may still be paired with a later line."""
    partner: "Line | None" = None
    """The line that shows the same."""
    texts: list[str] | None = None
    """What a mirror shows and no other line holds."""

    def __init__(
        self, number: int, kind: str, payload: dict[str, Any], timestamp: Any, record: Any
    ) -> None:
        self.number = number
        self.kind = kind
        self.payload = payload
        self.ts = to_utc(timestamp)
        self.record = record

    @property
    def place(self) -> str:
        return f"{self.where} {self.number}"


def lines(source: Source) -> Iterator[Line]:
    """Every record of a rollout as a line."""
    for number, record in source.records():
        if not isinstance(record, dict):
            yield Line(number, "", {}, None, record)
            continue
        payload, kind = record.get("payload"), record.get("type")
        if isinstance(payload, dict) and isinstance(kind, str):
            yield Line(number, kind, payload, record.get("timestamp"), record)
        else:
            yield from _bare_lines(number, record)


def _bare_lines(number: int, record: dict[str, Any]) -> Iterator[Line]:
    """The forms without envelopes, until September 2025."""
    if is_whole_session(record):
        session = record["session"]
        yield Line(number, "session_meta", session, session.get("timestamp"), session)
        for item in record["items"]:
            yield Line(number, "response_item", item if isinstance(item, dict) else {}, None, item)
    elif isinstance(record.get("type"), str):
        yield Line(number, "response_item", record, record.get("timestamp"), record)
    elif is_bare_header(record):
        yield Line(number, "session_meta", record, record.get("timestamp"), record)
    else:
        yield Line(number, "state" if "record_type" in record else "", record, None, record)
