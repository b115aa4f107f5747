"""GitHub Copilot CLI: the event log of a session, in a folder of its own or, before that, a file
alone."""

import re
from typing import Any

from open_token.sources.source import Source

LOG_FILE = "events.jsonl"
_EVENT = re.compile(
    r"(session|user|assistant|tool|system|subagent|hook|skill|permission)\.[a-z_.]+|abort"
)


def sniff(source: Source) -> bool:
    """A chain of events, each with its data; or the folder that holds their log."""
    if source.shape == "folder":
        return any(sniff(log) for log in source.find_files(LOG_FILE))
    records = [record for record in source.sample if isinstance(record, dict)]
    return source.shape != "document" and any(_is_event(record) for record in records)


def _is_event(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if (
        not isinstance(kind, str)
        or not _EVENT.fullmatch(kind)
        or not isinstance(record.get("data"), dict)
    ):
        return False
    return "parentId" in record and "id" in record and "timestamp" in record


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, the folder it was held in, the first words
    typed."""
    told: dict[str, str] = {}
    for record in records:
        data = record.get("data") if isinstance(record, dict) else None
        if not isinstance(data, dict):
            continue
        if record.get("type") == "session.start":
            context = data.get("context")
            cwd = context.get("cwd") if isinstance(context, dict) else None
            facts = {"id": data.get("sessionId"), "cwd": cwd}
            told |= {
                name: value for name, value in facts.items() if isinstance(value, str) and value
            }
        elif (
            record.get("type") == "user.message"
            and isinstance(words := data.get("content"), str)
            and words
        ):
            told.setdefault("title", words[:400])
    return told


def peek_tail(records: list[Any]) -> dict[str, str]:
    """What the last records tell: a title that was given later."""
    renamed = [
        record
        for record in records
        if isinstance(record, dict) and record.get("type") == "session.title_changed"
    ]
    data = renamed[-1].get("data") if renamed else None
    title = data.get("title") if isinstance(data, dict) else None
    return {"title": title} if isinstance(title, str) and title else {}
