"""Recognize logs of Kimi Code CLI, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

_EVENT_TYPES = ("context.append_message", "context.append_loop_event", "turn.prompt")
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether it begins with a protocol version or holds events of the context."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if not records:
        return False
    return _is_header(records[0]) or any(_is_event(record) for record in records)


def _is_header(record: dict[str, Any]) -> bool:
    return record.get("type") == "metadata" and isinstance(record.get("protocol_version"), str)


def _is_event(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if isinstance(kind, str):
        has_content = "event" in record or "message" in record or "input" in record
        return kind in _EVENT_TYPES and has_content
    return _get_turn_payload(record) is not None


def _get_turn_payload(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return the payload of a TurnBegin message in a wire log."""
    message = record.get("message")
    if not isinstance(message, dict) or message.get("type") != "TurnBegin":
        return None
    payload = message.get("payload")
    return payload if isinstance(payload, dict) else None


def peek(records: list[Any]) -> dict[str, str]:
    """Return cwd and first words of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        # Since 2.1 the cwd is part of the description of the environment for the model.
        for holder in (record, record.get("environmentDisclosure")):
            cwd = holder.get("cwd") if isinstance(holder, dict) else None
            if isinstance(cwd, str) and cwd:
                facts.setdefault("cwd", cwd)
        prompt = record.get("input") if record.get("type") == "turn.prompt" else None
        payload = _get_turn_payload(record)
        if payload is not None:
            prompt = payload.get("user_input")
        text = _read_text(prompt)
        if text:
            facts.setdefault("title", text[:_PREVIEW_LENGTH])
    return facts


def _read_text(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list):
        for part in prompt:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str):
                return text
    return ""
