"""Recognize session files of Gemini CLI, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

_PREVIEW_LENGTH = 400
_PREVIEW_MESSAGES = 8


def sniff(source: Source) -> bool:
    """Return whether there is a header with a session id and the hash of its project, or a stream."""
    return any(_is_header(record) for record in source.sample) or is_stream(source)


def is_stream(source: Source) -> bool:
    """Return whether the source is the output of `--output-format stream-json`."""
    return source.shape == "lines" and any(map(_is_stream_event, source.sample))


def _is_stream_event(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("timestamp"), str):
        return False
    if record.get("type") == "init":
        names: tuple[str, ...] = ("session_id", "model")
    elif record.get("type") == "tool_use":
        names = ("tool_name", "tool_id")
    else:
        return False
    return all(isinstance(record.get(name), str) for name in names)


def _is_header(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("sessionId"), str)
        and isinstance(record.get("projectHash"), str)
        and "uuid" not in record
    )


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, hash of the cwd, first words and title, as far as the first records say."""
    facts: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        if _is_header(record):
            facts["id"] = record["sessionId"]
            facts["cwd_sha256"] = record["projectHash"]
            messages = record.get("messages")
            if isinstance(messages, list):
                facts |= peek(messages[:_PREVIEW_MESSAGES])
        for holder in (record, record.get("$set")):
            summary = holder.get("summary") if isinstance(holder, dict) else None
            if isinstance(summary, str) and summary:
                facts["title"] = summary
        if record.get("type") == "user" and "words" not in facts:
            text = _read_text(record)
            if text:
                facts["words"] = text[:_PREVIEW_LENGTH]
    if "words" in facts:
        facts.setdefault("title", facts["words"])
    return facts


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the summary of the last patch that has one."""
    title = None
    for record in records:
        patch = record.get("$set") if isinstance(record, dict) else None
        summary = patch.get("summary") if isinstance(patch, dict) else None
        if isinstance(summary, str) and summary:
            title = summary
    return {"title": title} if title else {}


def _read_text(record: dict[str, Any]) -> str:
    content = record.get("displayContent") or record.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        for part in content:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str):
                return text
    return ""
