"""Recognize session files of Claude Code, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

# Records without a message or a place in the tree, with a field that each of them has.
_STANDALONE_RECORDS = {
    "summary": "leafUuid",
    "file-history-snapshot": "snapshot",
    "queue-operation": "operation",
}
_TREE_RECORDS = ("user", "assistant", "system", "attachment", "progress")
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether the input holds Anthropic messages in a tree of records with uuids.

    Qwen Code and iFlow use the same envelope around other messages.
    """
    records = [record for record in source.sample if isinstance(record, dict)]
    if any(_is_foreign(record) for record in records):
        return False
    if any(_is_message(record) or _is_tree_record(record) for record in records):
        return True
    return bool(records) and all(_is_standalone(record) for record in records)


def resembles(source: Source) -> bool:
    """Return whether records name their place in a tree and a session as Claude Code's do."""
    return any(
        isinstance(record, dict) and "parentUuid" in record and "sessionId" in record
        for record in source.sample
    )


def _is_message(record: dict[str, Any]) -> bool:
    message = record.get("message")
    return (
        record.get("type") in ("user", "assistant")
        and isinstance(message, dict)
        and isinstance(message.get("content"), str | list)
        and "uuid" in record
        and ("parentUuid" in record or "sessionId" in record)
    )


def _is_tree_record(record: dict[str, Any]) -> bool:
    return (
        record.get("type") in _TREE_RECORDS
        and "parentUuid" in record
        and "sessionId" in record
        and "message" not in record
    )


def _is_standalone(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in _STANDALONE_RECORDS:
        return False
    return _STANDALONE_RECORDS[kind] in record


def _is_foreign(record: dict[str, Any]) -> bool:
    """Return whether Qwen Code (Gemini parts) or iFlow (ids, results) wrote the record."""
    if "systemPayload" in record:
        return True
    message = record.get("message")
    if not isinstance(message, dict):
        return False
    if "parts" in message or str(message.get("id")).startswith("response-"):
        return True
    if str(record.get("sessionId")).startswith("session-"):
        return True
    content = message.get("content")
    return isinstance(content, list) and any(_has_response_parts(block) for block in content)


def _has_response_parts(block: Any) -> bool:
    content = block.get("content") if isinstance(block, dict) else None
    return isinstance(content, dict) and "responseParts" in content


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd, first words and title of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        for name, key in (
            ("id", "sessionId"),
            ("cwd", "cwd"),
            ("title", "customTitle"),
            ("title", "aiTitle"),
        ):
            value = record.get(key)
            if isinstance(value, str) and value:
                facts.setdefault(name, value)
        if "words" not in facts and record.get("type") == "user" and not _is_injected(record):
            words = _read_first_words(record)
            if words is not None:
                facts["words"] = words
    plans = (record.get("planContent") for record in records if isinstance(record, dict))
    plan = next((plan for plan in plans if isinstance(plan, str)), "")
    facts.setdefault("title", facts.get("words") or plan[:_PREVIEW_LENGTH])
    return facts


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the last title; one that a person gave wins.

    Claude Code writes the titles of a session again whenever it appends to the file.
    """
    titles: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        for key in ("aiTitle", "customTitle"):
            value = record.get(key)
            if isinstance(value, str) and value:
                titles[key] = value
    title = titles.get("customTitle") or titles.get("aiTitle")
    return {"title": title} if title else {}


def _is_injected(record: dict[str, Any]) -> bool:
    """Return whether the client wrote it.

    A fork after a compaction begins with the summary, a session after planning with the plan.
    """
    is_marked = record.get("isMeta") is True or record.get("isCompactSummary") is True
    return is_marked or "planContent" in record


def _read_first_words(record: dict[str, Any]) -> str | None:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = [
            block.get("text")
            for block in content
            if isinstance(block, dict) and block.get("type") == "text"
        ]
        content = texts[0] if texts else None
    # Tags and caveats are written by the client, not typed.
    if not isinstance(content, str) or content.lstrip().startswith(("<", "Caveat:")):
        return None
    return content[:_PREVIEW_LENGTH]
