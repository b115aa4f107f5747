"""AG-UI: the events by which an agent talks to a user interface, as lines, as a saved stream or as
a list."""

import re
from typing import Any

from open_token.sources.source import Source

_SURE = re.compile(
    r"(RUN|TEXT_MESSAGE|TOOL_CALL|MESSAGES|REASONING|THINKING|SUBAGENT)_[A-Z_]{3,32}"
)
_KINDS = re.compile(r"[A-Z]{3,16}(_[A-Z]{2,16}){0,4}")


def sniff(source: Source) -> bool:
    """Whether it is such events, or the input of a run."""
    records = source.sample
    if source.shape == "document" and records and isinstance(records[0], list):
        records = records[0][:512]
    if not records or not all(_fits(record, _KINDS) or is_input(record) for record in records):
        return False
    return any(_fits(record, _SURE) or is_input(record) for record in records)


def _fits(value: Any, kinds: re.Pattern[str]) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kinds.fullmatch(kind) is not None


def is_input(value: Any) -> bool:
    """Whether a record is what a client asks an agent to run on."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return (
        "type" not in value
        and isinstance(value.get("threadId"), str)
        and isinstance(value.get("runId"), str)
    )
