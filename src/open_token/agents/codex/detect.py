"""Codex CLI: rollouts of every year, and what `codex exec --json` prints."""

from typing import Any

from open_token.agents.codex.shapes import ENVELOPED, is_bare_header, is_stream, is_whole_session
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether it is a rollout, with or without envelopes, or a stream of `codex exec --json`."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if not records:
        return False
    return _is_rollout(records) or _is_bare(records) or is_stream(records)


def _is_rollout(records: list[dict[str, Any]]) -> bool:
    """Whether one of the first lines is of a rollout; what else a newer version writes there hides
    it not."""
    return any(_is_enveloped(record) for record in records)


def _is_enveloped(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if (
        not isinstance(kind, str)
        or kind not in ENVELOPED
        or not isinstance(record.get("payload"), dict)
    ):
        return False
    return kind == "session_meta" or "timestamp" in record


def _is_bare(records: list[dict[str, Any]]) -> bool:
    """The forms before September 2025: a header without a type, then items; or one document of
    both."""
    first = records[0]
    if is_whole_session(first):
        return len(records) == 1 and "timestamp" in first["session"]
    if not is_bare_header(first) or "payload" in first:
        return False
    return all(
        "record_type" in record or isinstance(record.get("type"), str) for record in records[1:]
    )


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, the folder it was held in, the first words
    typed."""
    told: dict[str, str] = {}
    for record in records:
        payload = record.get("payload") if isinstance(record, dict) else None
        if not isinstance(payload, dict):
            continue
        if record.get("type") == "session_meta":
            for name in ("id", "cwd"):
                if isinstance(value := payload.get(name), str) and value:
                    told.setdefault(name, value)
        elif words := _typed(payload):
            told.setdefault("title", words.rpartition("## My request for Codex:")[2].strip()[:400])
    return told


def _typed(payload: dict[str, Any]) -> str:
    """What the person typed, in either of the forms in which the screen is told of it."""
    if payload.get("type") == "user_message":
        words = payload.get("message")
        return words if isinstance(words, str) else ""
    item = payload.get("item") if payload.get("type") == "item_completed" else None
    if (
        not isinstance(item, dict)
        or item.get("type") != "UserMessage"
        or not isinstance(item.get("content"), list)
    ):
        return ""
    parts = [part.get("text") for part in item["content"] if isinstance(part, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))


def peek_tail(records: list[Any]) -> dict[str, str]:
    """The name that the thread was given last."""
    payloads = [record.get("payload") for record in records if isinstance(record, dict)]
    events = [
        item
        for item in payloads
        if isinstance(item, dict) and item.get("type") == "thread_name_updated"
    ]
    names = [name for item in events if isinstance(name := item.get("thread_name"), str) and name]
    return {"title": names[-1]} if names else {}
