"""Recognize event logs of GitHub Copilot CLI, and read the facts that a listing shows of them."""

import re
from typing import Any

from open_token.sources.source import Source

LOG_FILE = "events.jsonl"
_EVENT_TYPE = re.compile(
    r"(session|user|assistant|tool|system|subagent|hook|skill|permission)\.[a-z_.]+|abort"
)
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether it is a chain of events with data, or a folder with such a log."""
    if source.shape == "folder":
        return any(sniff(log) for log in source.find_files(LOG_FILE))
    if source.shape == "document":
        return False
    return any(_is_event(record) for record in source.sample)


def _is_event(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("data"), dict):
        return False
    kind = record.get("type")
    if not isinstance(kind, str) or not _EVENT_TYPE.fullmatch(kind):
        return False
    return "parentId" in record and "id" in record and "timestamp" in record


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and first words of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    for record in records:
        data = record.get("data") if isinstance(record, dict) else None
        if not isinstance(data, dict):
            continue
        kind = record.get("type")
        if kind == "session.start":
            context = data.get("context")
            cwd = context.get("cwd") if isinstance(context, dict) else None
            for name, value in (("id", data.get("sessionId")), ("cwd", cwd)):
                if isinstance(value, str) and value:
                    facts[name] = value
        elif kind == "user.message":
            text = data.get("content")
            if isinstance(text, str) and text:
                facts.setdefault("title", text[:_PREVIEW_LENGTH])
    return facts


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the last title that the session was given."""
    title = None
    for record in records:
        if isinstance(record, dict) and record.get("type") == "session.title_changed":
            data = record.get("data")
            title = data.get("title") if isinstance(data, dict) else None
    return {"title": title} if isinstance(title, str) and title else {}
