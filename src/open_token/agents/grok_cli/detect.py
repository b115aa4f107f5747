"""Recognize chat histories of Grok CLI, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

_KINDS = frozenset(("system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"))
# Other formats with these types have an envelope with one of these fields.
_FOREIGN_FIELDS = frozenset(
    "uuid parentUuid sessionId session_id payload timestamp message role part event subtype".split()
)
# Fields that only Grok writes, in the kinds that decide.
_OWN_FIELDS = {
    "user": ("prompt_index", "synthetic_reason", "prior_turn_interrupt"),
    "assistant": ("model_id", "model_fingerprint", "tool_calls"),
    "backend_tool_call": ("kind",),
}
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether most records are of known kinds, some with fields that only Grok writes."""
    records = source.sample
    for record in records:
        if not isinstance(record, dict) or not _FOREIGN_FIELDS.isdisjoint(record):
            return False
    items = [record for record in records if _is_item(record)]
    if 2 * len(items) <= len(records):
        return False
    for record in items:
        own_fields = _OWN_FIELDS.get(record["type"], ())
        if any(field in record for field in own_fields):
            return True
    return False


def _is_item(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return False
    return "content" in record or kind in ("reasoning", "backend_tool_call")


def peek(records: list[Any]) -> dict[str, str]:
    """Return the first words of a chat; or id, cwd and title from its companion file."""
    for record in records:
        if not isinstance(record, dict):
            continue
        info = record.get("info")
        if isinstance(info, dict):
            facts = {
                "id": info.get("id"),
                "cwd": info.get("cwd"),
                "title": record.get("generated_title"),
            }
            return {
                name: value for name, value in facts.items() if isinstance(value, str) and value
            }
        if record.get("type") == "user" and "prompt_index" in record:
            text = _read_typed_text(record)
            return {"title": text.strip()[:_PREVIEW_LENGTH]}
    return {}


def _read_typed_text(record: dict[str, Any]) -> str:
    parts = record.get("content")
    if not isinstance(parts, list):
        return ""
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            query = text.partition("<user_query>")[2].partition("</user_query>")[0]
            return query or text
    return ""


def companion_file(name: str) -> str | None:
    """Return the file next to a chat that `peek` also understands."""
    return "summary.json" if name == "chat_history.jsonl" else None
