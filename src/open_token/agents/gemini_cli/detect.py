"""Gemini CLI: sessions as one document, and the newer line by line form with its patches."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """A header with a session and the hash of its project, with the messages in it or behind it."""
    return any(_is_header(record) for record in source.sample)


def _is_header(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("sessionId"), str)
        and isinstance(record.get("projectHash"), str)
        and "uuid" not in record
    )


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, and its summary or the first words
    typed."""
    told: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        if _is_header(record):
            told["id"], told["cwd_sha256"] = record["sessionId"], record["projectHash"]
            inner = record.get("messages")
            told |= peek(inner[:8]) if isinstance(inner, list) else {}
        patch = record.get("$set")
        for holder in (record, patch if isinstance(patch, dict) else {}):
            if isinstance(summary := holder.get("summary"), str) and summary:
                told["title"] = summary
        if record.get("type") == "user" and "words" not in told and (words := _words(record)):
            told["words"] = words[:400]
    return told if "title" in told or "words" not in told else {**told, "title": told["words"]}


def peek_tail(records: list[Any]) -> dict[str, str]:
    """The summary that the last patches give."""
    patches = [record.get("$set") for record in records if isinstance(record, dict)]
    titles = [patch.get("summary") for patch in patches if isinstance(patch, dict)]
    named = [title for title in titles if isinstance(title, str) and title]
    return {"title": named[-1]} if named else {}


def _words(record: dict[str, Any]) -> str:
    content = record.get("displayContent") or record.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = next((text for text in texts if isinstance(text, str)), "")
    return content if isinstance(content, str) else ""
