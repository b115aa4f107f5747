"""Recognize conversations of LM Studio, and read the facts that a listing shows of them."""

from typing import Any

from open_token.formats.shared.chat_logs import find_first_words
from open_token.formats.shared.fields import JsonObject, as_dicts, get_dicts, get_text
from open_token.sources.source import Source

_MAX_INSPECTED = 8


def sniff(source: Source) -> bool:
    """Return whether it is one conversation: messages that have versions, one of them selected."""
    return len(source.sample) == 1 and is_conversation(source.sample[0])


def is_conversation(value: Any) -> bool:
    """Return whether a value is a conversation."""
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not messages:
        return False
    return any(_is_message(message) for message in messages[:_MAX_INSPECTED])


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or "currentlySelected" not in message:
        return False
    return isinstance(message.get("versions"), list)


def get_selected(message: JsonObject) -> int:
    """Return which of the versions of a message is selected; the last one if that is unclear."""
    count = len(message["versions"])
    selected = message.get("currentlySelected")
    return selected if type(selected) is int and 0 <= selected < count else count - 1


def peek(records: list[Any]) -> dict[str, str]:
    """Return title and first words of a conversation."""
    conversation = records[0] if records else None
    if not is_conversation(conversation):
        return {}
    versions: list[Any] = []
    for message in get_dicts(conversation, "messages"):
        if as_dicts(message.get("versions")) == message.get("versions") != []:
            versions.append(message["versions"][get_selected(message)])
    found = {"title": get_text(conversation, "name"), "words": find_first_words(versions)}
    return {name: value for name, value in found.items() if value}
