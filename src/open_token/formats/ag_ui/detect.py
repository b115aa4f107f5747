"""Detection of AG-UI event streams."""

import re
from typing import Any

from open_token.sources.source import Source

_DISTINCTIVE_TYPE = re.compile(
    r"(RUN|TEXT_MESSAGE|TOOL_CALL|MESSAGES|REASONING|THINKING|SUBAGENT)_[A-Z_]{3,32}"
)
_ANY_TYPE = re.compile(r"[A-Z]{3,16}(_[A-Z]{2,16}){0,4}")


def sniff(source: Source) -> bool:
    """Return whether the source holds AG-UI events, or the input of a run."""
    records = source.sample
    if source.shape == "document" and records and isinstance(records[0], list):
        records = records[0][:512]
    if not records:
        return False
    if not all(_has_type(record, _ANY_TYPE) or _is_input(record) for record in records):
        return False
    return any(_has_type(record, _DISTINCTIVE_TYPE) or _is_input(record) for record in records)


def _has_type(value: Any, pattern: re.Pattern[str]) -> bool:
    # Steps of Antigravity have types in capitals, too.
    if not isinstance(value, dict) or "step_index" in value:
        return False
    kind = value.get("type")
    return isinstance(kind, str) and pattern.fullmatch(kind) is not None


def _is_input(value: Any) -> bool:
    """Return whether a record is the input that a client sends to start a run."""
    if not isinstance(value, dict) or "type" in value:
        return False
    if not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("threadId"), str) and isinstance(value.get("runId"), str)
