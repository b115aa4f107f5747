"""Recognize rollouts of Codex and `codex exec --json`, and read what a listing shows of them."""

from typing import Any

from open_token.agents.codex.records import (
    ENVELOPE_TYPES,
    is_bare_header,
    is_exec_stream,
    is_session_document,
)
from open_token.sources.source import Source

_IDE_REQUEST = "## My request for Codex:"
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether it is a rollout, with or without envelopes, or an exec stream."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if not records:
        return False
    # One known line is enough: newer versions may write other records before it.
    has_envelope = any(_is_enveloped(record) for record in records)
    return has_envelope or _is_bare(records) or is_exec_stream(records)


def resembles(source: Source) -> bool:
    """Return whether records are in envelopes as those of Codex, of types that are not known."""
    envelope = {"timestamp", "type", "payload"}
    return any(isinstance(record, dict) and envelope <= record.keys() for record in source.sample)


def _is_enveloped(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in ENVELOPE_TYPES:
        return False
    if not isinstance(record.get("payload"), dict):
        return False
    return kind == "session_meta" or "timestamp" in record


def _is_bare(records: list[dict[str, Any]]) -> bool:
    """Return whether it is of a version before September 2025.

    Those wrote a header without a type and then items, or one document of both.
    """
    first = records[0]
    if is_session_document(first):
        return len(records) == 1 and "timestamp" in first["session"]
    if not is_bare_header(first) or "payload" in first:
        return False
    return all(
        "record_type" in record or isinstance(record.get("type"), str) for record in records[1:]
    )


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and first words of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    for record in records:
        payload = record.get("payload") if isinstance(record, dict) else None
        if not isinstance(payload, dict):
            continue
        if record.get("type") == "session_meta":
            for name in ("id", "cwd"):
                value = payload.get(name)
                if isinstance(value, str) and value:
                    facts.setdefault(name, value)
            continue
        text = _read_typed_text(payload)
        if text:
            request = text.rpartition(_IDE_REQUEST)[2].strip()
            facts.setdefault("title", request[:_PREVIEW_LENGTH])
    return facts


def _read_typed_text(payload: dict[str, Any]) -> str:
    """Return what a person typed: a user_message event, or the newer UserMessage item."""
    if payload.get("type") == "user_message":
        text = payload.get("message")
        return text if isinstance(text, str) else ""
    item = payload.get("item") if payload.get("type") == "item_completed" else None
    if not isinstance(item, dict) or item.get("type") != "UserMessage":
        return ""
    content = item.get("content")
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the last name that the thread was given."""
    title = None
    for record in records:
        payload = record.get("payload") if isinstance(record, dict) else None
        if isinstance(payload, dict) and payload.get("type") == "thread_name_updated":
            name = payload.get("thread_name")
            if isinstance(name, str) and name:
                title = name
    return {"title": title} if title else {}
