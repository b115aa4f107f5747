"""Read a conversation of a DeepSeek export: the tree of its messages, each in fragments."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.deepseek_export.detect import LAYOUT
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.fields import JsonObject, as_dicts, get_text
from open_token.formats.shared.message_tree import MessageTree
from open_token.formats.shared.message_writer import MessageWriter
from open_token.formats.shared.product_chats import ProductChat, build_file_block, parse_time
from open_token.model.document import Event, Found
from open_token.sources.source import Source

_CONVERSATION_FIELDS = ("id", "title", "inserted_at", "updated_at", "mapping")
_MESSAGE_FIELDS = frozenset(
    "fragments model inserted_at files role content reasoning_content".split()
)
_FRAGMENT_FIELDS = ("type", "content")
_ROLES = {"USER": "REQUEST", "ASSISTANT": "RESPONSE"}


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(
        source, draft, lambda part: _ConversationReader(draft).read(part.value)
    )


def list_conversations(source: Source) -> list[Found]:
    """List the conversations, in the order of the export."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    nodes = part.value["mapping"].values()
    return Found(
        part.id,
        title=get_text(part.value, "title"),
        started_at=parse_time(part.value.get("inserted_at")),
        updated_at=parse_time(part.value.get("updated_at")),
        messages=sum(1 for node in nodes if isinstance(node, dict) and node.get("message")),
    )


class _ConversationReader:
    """Reads one conversation."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._chat = ProductChat(draft, "DeepSeek")

    def read(self, conversation: JsonObject) -> None:
        self._chat.add_context(conversation, _CONVERSATION_FIELDS)
        tree = MessageTree(self._draft, ("id",), ("parent",))
        for key, node in conversation["mapping"].items():
            if isinstance(node, dict) and "id" not in node:
                node = {**node, "id": key}
            tree.add(node, f"message {key}" if key.isdecimal() else "a message")
        tree.read(None, self._read_node)
        started_at = parse_time(conversation.get("inserted_at"))
        self._chat.finish(conversation.get("id"), conversation.get("title"), started_at)

    def _read_node(self, node: JsonObject, place: str) -> None:
        message = node.get("message")
        if message is None:
            # The root of the tree.
            return
        if not isinstance(message, dict):
            self._draft.note_omission("unknown-record", place, "a message that is not an object")
            return
        ts = parse_time(message.get("inserted_at"))
        files = [build_file_block(file) for file in as_dicts(message.get("files"))]
        parent: Event | None = None
        fragments = _list_fragments(message)
        requests = [part for part in fragments if get_text(part, "type") == "REQUEST"]
        for fragment in requests:
            content = _build_content(fragment.get("content"), files)
            files = []
            parent = self._chat.add_text("user", content, place, ts)
            self._chat.add_facts(fragment, _FRAGMENT_FIELDS, parent=parent, ts=ts)
        if len(requests) < len(fragments):
            # A message of the user names a model, too; it takes part only if it answers.
            model = message.get("model")
            writer = self._chat.open_answer(model, place, provider="deepseek", ts=ts)
            for fragment in fragments:
                if fragment not in requests:
                    self._read_fragment(writer, fragment)
            if files:
                writer.add_message(files)
            parent = writer.last
        elif files:
            parent = self._chat.add_text("user", files, place, ts)
        if not fragments and parent is None:
            self._draft.note_omission("empty-message", place, "message without text")
        self._chat.add_facts(message, _MESSAGE_FIELDS, parent=parent, ts=ts)

    def _read_fragment(self, writer: MessageWriter, fragment: Any) -> None:
        """Read a part of an answer; searches and pages that were read become annotations."""
        kind = get_text(fragment, "type")
        text = get_text(fragment, "content")
        if kind == "THINK" and text:
            writer.add_reasoning(text)
        elif kind == "RESPONSE" and text:
            writer.add_message(text)
        else:
            writer.add_annotation("steps", steps=[fragment])
            return
        self._chat.add_facts(fragment, _FRAGMENT_FIELDS, parent=writer.last, ts=writer.ts)


def _list_fragments(message: JsonObject) -> list[Any]:
    """Return the fragments of a message; older exports have a role and two texts instead."""
    fragments = message.get("fragments")
    if isinstance(fragments, list):
        return fragments
    made: list[Any] = [] if fragments is None else [fragments]
    if message.get("reasoning_content"):
        made.append({"type": "THINK", "content": message["reasoning_content"]})
    if message.get("content"):
        role = message.get("role")
        kind = _ROLES.get(role.upper(), "RESPONSE") if isinstance(role, str) else "RESPONSE"
        made.append({"type": kind, "content": message["content"]})
    return made


def _build_content(content: Any, files: list[JsonObject]) -> Any:
    if not files:
        return content
    texts = [{"type": "text", "text": content}] if content else []
    return texts + files
