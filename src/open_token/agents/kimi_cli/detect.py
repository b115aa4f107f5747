"""Kimi Code CLI: the event log of a session, and the wire log of the Python CLI before it."""

from typing import Any

from open_token.sources.source import Source

_RECORDS = ("context.append_message", "context.append_loop_event", "turn.prompt")


def sniff(source: Source) -> bool:
    """A log that begins with the version of its protocol, or whose records are the events of the
    context."""
    records = [record for record in source.sample if isinstance(record, dict)]
    return bool(records) and (
        _is_header(records[0]) or any(_is_event(record) for record in records)
    )


def _is_header(record: dict[str, Any]) -> bool:
    return record.get("type") == "metadata" and isinstance(record.get("protocol_version"), str)


def _is_event(record: dict[str, Any]) -> bool:
    kind, message = record.get("type"), record.get("message")
    if isinstance(kind, str):
        return kind in _RECORDS and ("event" in record or "message" in record or "input" in record)
    return (
        isinstance(message, dict)
        and message.get("type") == "TurnBegin"
        and isinstance(message.get("payload"), dict)
    )


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: the folder it was held in, the first words
    typed."""
    told: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        disclosed = record.get("environmentDisclosure")
        for holder in (record, disclosed if isinstance(disclosed, dict) else {}):
            if isinstance(cwd := holder.get("cwd"), str) and cwd:
                told.setdefault("cwd", cwd)
        typed = record.get("input") if record.get("type") == "turn.prompt" else None
        message = record.get("message")
        if (
            isinstance(message, dict)
            and message.get("type") == "TurnBegin"
            and isinstance(message.get("payload"), dict)
        ):
            typed = message["payload"].get("user_input")
        if words := _words(typed):
            told.setdefault("title", words[:400])
    return told


def _words(typed: Any) -> str:
    if isinstance(typed, list):
        texts = [part.get("text") for part in typed if isinstance(part, dict)]
        typed = next((text for text in texts if isinstance(text, str)), "")
    return typed if isinstance(typed, str) else ""
