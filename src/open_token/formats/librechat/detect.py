"""Detection of exports of LibreChat."""

from typing import Any

from open_token.formats.shared.fields import JsonObject, get_text
from open_token.sources.source import Source

_MAX_INSPECTED = 8


def get_messages(value: JsonObject) -> list[Any] | None:
    """Return the messages of a conversation: those without a parent first, others among them."""
    for name in ("messagesTree", "messages"):
        messages = value.get(name)
        if isinstance(messages, dict):
            messages = [messages]
        if isinstance(messages, list):
            return messages
    return None


def is_conversation(value: Any) -> bool:
    """Return whether a value is a conversation: its id, and messages that say who wrote them."""
    if not isinstance(value, dict) or "conversationId" not in value:
        return False
    messages = get_messages(value) or []
    return any(_is_message(message) for message in messages[:_MAX_INSPECTED])


def _is_message(message: Any) -> bool:
    return get_text(message, "messageId") is not None and "isCreatedByUser" in message


def sniff(source: Source) -> bool:
    """Return whether the source is an export of LibreChat."""
    return len(source.sample) == 1 and is_conversation(source.sample[0])


def peek(records: list[Any]) -> dict[str, str]:
    """Return id and title of a conversation."""
    conversation = records[0] if records else None
    if not is_conversation(conversation):
        return {}
    found = {
        "id": get_text(conversation, "conversationId"),
        "title": get_text(conversation, "title"),
    }
    return {name: value for name, value in found.items() if value}
