"""Read a conversation of LibreChat: the tree of its messages."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.librechat.detect import get_messages, is_conversation
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_dict,
    get_text,
    parse_arguments,
)
from open_token.formats.shared.message_tree import MessageTree
from open_token.formats.shared.message_writer import MessageWriter
from open_token.formats.shared.product_chats import ProductChat, build_file_block, parse_time
from open_token.model.document import Event
from open_token.sources.source import Source

_CONVERSATION_FIELDS = frozenset(
    "conversationId title branches recursive messages messagesTree".split()
)
_MESSAGE_FIELDS = frozenset(
    (
        "_id __v messageId parentMessageId conversationId createdAt updatedAt isCreatedByUser user"
        " text content children model endpoint files tokenCount"
    ).split()
)
_USUAL_SENDERS = ("User", "user")


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    for number, record in source.records():
        if is_conversation(record):
            _ConversationReader(draft, record).read()
        else:
            detail = "a record that is not a conversation"
            draft.note_omission("unknown-record", f"record {number}", detail)


def _flatten(conversation: JsonObject) -> list[Any]:
    """Return all messages, each before those that answer it."""
    found: list[Any] = []
    # An explicit stack: conversations are deeper than Python recurses.
    stack = list(reversed(get_messages(conversation) or []))
    while stack:
        message = stack.pop()
        found.append(message)
        children = message.get("children") if isinstance(message, dict) else None
        if isinstance(children, list):
            stack += reversed(children)
    return found


class _ConversationReader:
    """Reads one conversation."""

    def __init__(self, draft: Draft, conversation: JsonObject) -> None:
        self._draft = draft
        self._conversation = conversation
        self._options = get_dict(conversation, "options")
        self._chat = ProductChat(draft, "LibreChat")

    def read(self) -> None:
        conversation = self._conversation
        self._chat.add_context(conversation, _CONVERSATION_FIELDS)
        for name in ("promptPrefix", "system", "instructions"):
            if as_text(self._options.get(name)):
                self._chat.add_text("system", self._options[name], name)
        tree = MessageTree(self._draft, ("messageId",), ("parentMessageId",))
        latest: tuple[str, str] | None = None
        for number, message in enumerate(_flatten(conversation), 1):
            tree.add(message, f"message {number}")
            message_id = get_text(message, "messageId")
            time = parse_time(message.get("createdAt")) if message_id else None
            if message_id and time and (latest is None or time >= latest[0]):
                latest = (time, message_id)
        # The export does not say which branch was open: the last one that was continued.
        tree.read(latest[1] if latest else None, self._read_message)
        title = conversation.get("title")
        self._chat.finish(conversation.get("conversationId"), title, None)

    def _read_message(self, message: JsonObject, place: str) -> None:
        ts = parse_time(message.get("createdAt"))
        known = _MESSAGE_FIELDS
        parent: Event | None
        if message.get("error") is True:
            # The text is that of the product, which answered for the model.
            data = {"kind": "error", "error": _build_content(message)}
            parent = self._draft.add_annotation(data, actor=self._chat.client, ts=ts)
        elif message.get("isCreatedByUser") is True:
            parent = self._chat.add_text("user", _build_content(message), place, ts)
            if message.get("sender") in _USUAL_SENDERS:
                known = known | {"sender"}
        else:
            parent = self._read_answer(message, place, ts)
            if message.get("sender") == message.get("model"):
                known = known | {"sender"}
        self._chat.add_facts(message, known, parent=parent, ts=ts)

    def _read_answer(self, message: JsonObject, place: str, ts: str | None) -> Event | None:
        model = message.get("model") or self._options.get("model")
        provider = message.get("endpoint") or self._conversation.get("endpoint")
        writer = self._chat.open_answer(model, place, provider=provider, ts=ts)
        count = self._draft.count
        texts: list[str] = []
        content = message.get("content")
        for part in content if isinstance(content, list) else []:
            texts += _read_part(writer, part)
        text = message.get("text")
        if text and text not in ("".join(texts), "\n".join(texts)):
            writer.add_message(text if isinstance(text, str) else [text])
        if content and not isinstance(content, list):
            writer.add_message(content if isinstance(content, str) else [content])
        files = [build_file_block(file) for file in as_dicts(message.get("files"))]
        if files:
            writer.add_message(files)
        if self._draft.count == count:
            self._draft.note_omission("empty-message", place, "message without text")
        return writer.last


def _read_part(writer: MessageWriter, part: Any) -> list[str]:
    """Read one part of an answer; return what it says as text."""
    kind = get_text(part, "type")
    text = _get_value(part.get(kind)) if kind in ("text", "think") else None
    if text == "":
        return []
    if kind == "text" and text:
        writer.add_message(text)
        return [text]
    if kind == "think" and text:
        writer.add_reasoning(text)
    elif kind == "tool_call" and get_dict(part, "tool_call"):
        _read_call(writer, part["tool_call"])
    elif kind == "error":
        writer.add_annotation("error", error=part)
    else:
        writer.add_message([part])
    return []


def _get_value(text: Any) -> str | None:
    """Return a text, which may be an object with annotations around it."""
    value = text.get("value") if isinstance(text, dict) else text
    return value if isinstance(value, str) else None


def _read_call(writer: MessageWriter, call: JsonObject) -> None:
    function = get_dict(call, "function") or call
    native_id = as_text(call.get("id"))
    tool = as_text(function.get("name")) or "tool"
    given = function.get("args", function.get("arguments"))
    writer.add_tool_call(native_id, tool, parse_arguments(given))
    output = function.get("output")
    if output is not None:
        writer.add_tool_result(native_id, output, tool)


def _build_content(message: JsonObject) -> Any:
    """Return what the user sent: a text, or blocks where there is more."""
    blocks: list[Any] = []
    text = message.get("text")
    if text:
        blocks.append({"type": "text", "text": text} if isinstance(text, str) else text)
    content = message.get("content")
    if content and not isinstance(content, list):
        content = [content]
    for part in content or []:
        value = _get_value(part.get("text")) if get_text(part, "type") == "text" else None
        if value is None:
            blocks.append(part)
        elif value and value != text:
            blocks.append({"type": "text", "text": value})
    blocks += [build_file_block(file) for file in as_dicts(message.get("files"))]
    if len(blocks) == 1 and isinstance(text, str):
        return text
    return blocks
