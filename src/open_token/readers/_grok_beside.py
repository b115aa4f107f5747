"""What lies beside a chat of Grok CLI: facts about its session, and when its tools were called and how they ended."""

from dataclasses import dataclass
from typing import Any

from open_token.draft import Draft
from open_token.errors import InputError
from open_token.readers._wire_responses_content import word
from open_token.source import Source
from open_token.timestamps import from_epoch

_ENDS = ("completed", "failed")
Body = dict[str, Any]


@dataclass(slots=True)
class Run:
    """One run of a tool: when it was called, when it ended, and how."""

    called: str | None = None
    ended: str | None = None
    status: str | None = None


def summary(source: Source, draft: Draft) -> Body:
    """The session's own facts; empty when there are none."""
    beside = source.neighbour("summary.json")
    try:
        found = beside.document if beside else None
    except InputError:
        draft.skip("broken-file", "summary.json", "this is not JSON")
        found = None
    return found if isinstance(found, dict) else {}


def runs(source: Source, draft: Draft) -> dict[str, Run]:
    """The runs of tools by the ids of their calls, from the log of updates."""
    beside = source.neighbour("updates.jsonl")
    found: dict[str, Run] = {}
    try:
        for number, record in beside.records() if beside else ():
            if not _take(found, record):
                draft.skip("unknown-record", f"updates.jsonl line {number}", "a line that is no update")
    except InputError:
        draft.skip("broken-file", "updates.jsonl", "a line of it is not JSON")
    return found


def _take(found: dict[str, Run], record: Any) -> bool:
    """Learn what an update says of a run; gives whether it is an update at all."""
    params = record.get("params") if isinstance(record, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    call = word(update.get("toolCallId")) if isinstance(update, dict) else None
    if call is None or not isinstance(params, dict) or not isinstance(update, dict):
        return isinstance(update, dict)
    meta, kind, status = params.get("_meta"), update.get("sessionUpdate"), word(update.get("status"))
    exact = meta.get("agentTimestampMs") if isinstance(meta, dict) else None
    ts = from_epoch(exact, 0.001) or from_epoch(record.get("timestamp"))
    run = found.setdefault(call, Run())
    if kind == "tool_call":
        run.called = run.called or ts
    if status in _ENDS:
        run.ended, run.status = ts, status
    return True
