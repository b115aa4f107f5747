"""Read a conversation of Chatbot UI."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.chatbot_ui.detect import LAYOUT
from open_token.formats.shared.chat_messages import add_assistant_message, parse_content
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.fields import JsonObject, get_text
from open_token.formats.shared.product_chats import ProductChat
from open_token.model.document import Event, Found
from open_token.sources.source import Source

_CONVERSATION_FIELDS = ("id", "name", "messages", "prompt", "folderId")
_MESSAGE_FIELDS = ("role", "content")


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(source, draft, lambda part: _read_conversation(draft, part.value))


def list_conversations(source: Source) -> list[Found]:
    """List the conversations, in the order of the export."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    title = get_text(part.value, "name")
    return Found(part.id, title=title, messages=len(part.value["messages"]))


def _read_conversation(draft: Draft, conversation: JsonObject) -> None:
    chat = ProductChat(draft, "Chatbot UI")
    chat.add_context(conversation, _CONVERSATION_FIELDS)
    if conversation.get("prompt"):
        chat.add_text("system", conversation["prompt"], "prompt")
    model = conversation["model"].get("id")
    for number, message in enumerate(conversation["messages"], 1):
        place = f"message {number}"
        if not isinstance(message, dict):
            draft.note_omission("unknown-record", place, "a message that is not an object")
            continue
        parent: Event | None
        known: tuple[str, ...] = _MESSAGE_FIELDS
        if message.get("type") == "text":
            known = (*known, "type")
        if message.get("role") == "assistant":
            writer = chat.open_answer(model, place)
            add_assistant_message(writer, message)
            parent = writer.last
        else:
            content = parse_content(draft, message.get("content"), place)
            parent = chat.add_text(message.get("role"), content, place)
        chat.add_facts(message, known, parent=parent)
    chat.finish(conversation.get("id"), conversation.get("name"), None)
