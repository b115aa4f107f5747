"""What lies beside a chat of Grok CLI: facts about its session, how its tools ran, what its turns
took."""

from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage
from open_token.sources.source import Source

_ENDS = ("completed", "failed")
Body = dict[str, Any]


@dataclass(slots=True)
class Run:
    """One run of a tool: when it was called, when it ended, and how."""

    called: str | None = None
    ended: str | None = None
    status: str | None = None


@dataclass(slots=True)
class Updates:
    """What the log of updates tells."""

    runs: dict[str, Run] = field(default_factory=dict)
    """By the ids of their calls."""
    spent: dict[int, list[tuple[Usage, str | None]]] = field(default_factory=dict)
    """What turns took and when they ended, by the number of their prompt; what subagents took is in
    it."""
    prompt: int = 0
    """The number of the prompt that was seen last."""


def summary(source: Source, draft: Draft) -> Body:
    """The session's own facts; empty when there are none."""
    beside = source.open_sibling("summary.json")
    try:
        found = beside.document if beside else None
    except InputError:
        draft.note_omission("broken-file", "summary.json", "this is not JSON")
        found = None
    return found if isinstance(found, dict) else {}


def updates(source: Source, draft: Draft) -> Updates:
    """The log of updates, where there is one."""
    beside = source.open_sibling("updates.jsonl")
    found = Updates()
    try:
        for number, record in beside.records() if beside else ():
            if not _take(found, record):
                draft.note_omission(
                    "unknown-record", f"updates.jsonl line {number}", "a line that is no update"
                )
    except InputError:
        draft.note_omission("broken-file", "updates.jsonl", "a line of it is not JSON")
    return found


def _take(found: Updates, record: Any) -> bool:
    """Learn what an update says of a run or a turn; gives whether it is an update at all."""
    params = record.get("params") if isinstance(record, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(update, dict):
        return False
    meta, kind = params.get("_meta"), update.get("sessionUpdate")
    exact = meta.get("agentTimestampMs") if isinstance(meta, dict) else None
    ts = from_epoch(exact, 0.001) or from_epoch(record.get("timestamp"))
    if call := as_text(update.get("toolCallId")):
        _run(found.runs.setdefault(call, Run()), kind, as_text(update.get("status")), ts)
    elif kind == "user_message_chunk":
        about = update.get("_meta")
        index = about.get("promptIndex") if isinstance(about, dict) else None
        found.prompt = index if type(index) is int else found.prompt
    elif kind == "turn_completed" and (usage := _usage(update.get("usage"))):
        found.spent.setdefault(found.prompt, []).append((usage, ts))
    return True


def _run(run: Run, kind: Any, status: str | None, ts: str | None) -> None:
    if kind == "tool_call":
        run.called = run.called or ts
    if status in _ENDS:
        run.ended, run.status = ts, status


def _usage(usage: Any) -> Usage | None:
    """The figures of a turn, since 1.0.41 at the latest; its input counts what was cached."""
    found = usage if isinstance(usage, dict) else {}
    return build_usage(
        input_tokens=found.get("inputTokens"),
        output_tokens=found.get("outputTokens"),
        reasoning_tokens=found.get("reasoningTokens"),
        cache_read_tokens=found.get("cachedReadTokens"),
        cache_write_tokens=found.get("cacheCreationTokens"),
    )
