"""Grok CLI (Grok Build): the history of a chat as the model sees it, with what lies in its folder
beside it."""

from typing import Any

from open_token.sources.source import Source

_KINDS = frozenset(("system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"))
_ENVELOPES = frozenset(
    "uuid parentUuid sessionId session_id payload timestamp message role part event subtype".split()
)
_MARKS = {
    "user": ("prompt_index", "synthetic_reason", "prior_turn_interrupt"),
    "assistant": ("model_id", "model_fingerprint", "tool_calls"),
    "reasoning": ("encrypted_content",),
    "backend_tool_call": ("kind",),
    "tool_result": ("tool_call_id",),
}


def sniff(source: Source) -> bool:
    """Records without an envelope, most of these kinds, of which some have what only this runtime
    writes."""
    records = source.sample
    if not all(isinstance(record, dict) and _ENVELOPES.isdisjoint(record) for record in records):
        return False
    known = [record for record in records if _is_item(record)]
    if 2 * len(known) <= len(records):
        return False
    marked = [
        record["type"]
        for record in known
        if any(name in record for name in _MARKS.get(record["type"], ()))
    ]
    return any(kind in ("user", "assistant", "backend_tool_call") for kind in marked)


def _is_item(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return False
    return "content" in record or kind in ("reasoning", "backend_tool_call")


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: the first words typed; or the facts beside them:
    id, folder, title."""
    for record in records:
        if isinstance(record, dict) and isinstance(info := record.get("info"), dict):
            found = {
                "id": info.get("id"),
                "cwd": info.get("cwd"),
                "title": record.get("generated_title"),
            }
            return {
                name: value for name, value in found.items() if isinstance(value, str) and value
            }
        if isinstance(record, dict) and record.get("type") == "user" and "prompt_index" in record:
            parts = record.get("content")
            texts = (
                [part.get("text") for part in parts if isinstance(part, dict)]
                if isinstance(parts, list)
                else []
            )
            words = next((text for text in texts if isinstance(text, str)), "")
            words = words.partition("<user_query>")[2].partition("</user_query>")[0] or words
            return {"title": words.strip()[:400]}
    return {}


def companion_file(name: str) -> str | None:
    """The file that tells more of a session."""
    return "summary.json" if name == "chat_history.jsonl" else None
