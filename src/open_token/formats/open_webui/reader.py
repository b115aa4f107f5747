"""Read a chat of Open WebUI: the tree of its messages."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.open_webui.details import split_details
from open_token.formats.open_webui.detect import LAYOUT, get_chat
from open_token.formats.shared.chat_messages import parse_usage
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_dict,
    get_first,
    get_text,
)
from open_token.formats.shared.message_tree import MessageTree
from open_token.formats.shared.message_writer import MessageWriter
from open_token.formats.shared.product_chats import ProductChat, build_file_block, parse_time
from open_token.formats.shared.responses_items import ItemActors, add_item
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Found, Usage
from open_token.sources.source import Source

_ROW_FIELDS = ("id", "chat", "title", "created_at", "updated_at", "user_id")
_CHAT_FIELDS = ("id", "title", "history", "messages", "timestamp", "system")
_MESSAGE_FIELDS = frozenset(
    (
        "id parentId childrenIds role content timestamp model modelName models modelIdx done files"
        " usage info output error lastSentence"
    ).split()
)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen chat into the draft."""
    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(source, draft, lambda part: _ChatReader(draft).read(part.value))


def list_conversations(source: Source) -> list[Found]:
    """List the chats, in the order of the export."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the chat that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    chat = get_chat(part.value)
    return Found(
        part.id,
        title=get_text(part.value, "title") or get_text(chat, "title"),
        started_at=parse_time(get_first(part.value, "created_at", "timestamp")),
        updated_at=parse_time(part.value.get("updated_at")),
        messages=len(get_dict(get_dict(chat, "history"), "messages")),
    )


class _ChatReader:
    """Reads one chat."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._chat = ProductChat(draft, "Open WebUI")

    def read(self, row: JsonObject) -> None:
        chat = get_chat(row)
        if chat is not row:
            self._chat.add_context(row, _ROW_FIELDS)
        self._chat.add_context(chat, _CHAT_FIELDS)
        system = chat.get("system")
        if system:
            self._chat.add_text("system", system, "system prompt")
        history = get_dict(chat, "history")
        tree = MessageTree(self._draft, ("id",), ("parentId",))
        for number, (key, message) in enumerate(get_dict(history, "messages").items(), 1):
            if isinstance(message, dict) and "id" not in message:
                message = {**message, "id": key}
            tree.add(message, f"message {number}")
        tree.read(as_text(history.get("currentId")), self._read_message)
        title = get_text(row, "title") or get_text(chat, "title")
        started_at = parse_time(get_first(row, "created_at", "timestamp"))
        self._chat.finish(row.get("id"), title, started_at or parse_time(chat.get("timestamp")))

    def _read_message(self, message: JsonObject, place: str) -> None:
        ts = parse_time(message.get("timestamp"))
        if message.get("role") == "assistant":
            parent = self._read_answer(message, place, ts)
        else:
            content = _build_content(message.get("content"), message)
            parent = self._chat.add_text(message.get("role"), content, place, ts)
        self._chat.add_facts(message, _MESSAGE_FIELDS, parent=parent, ts=ts)
        if message.get("error"):
            data = {"kind": "error", "error": message["error"]}
            self._draft.add_annotation(data, parent=parent, actor=self._chat.client, ts=ts)

    def _read_answer(self, message: JsonObject, place: str, ts: str | None) -> Any:
        usage = _parse_usage(message)
        writer = self._chat.open_answer(message.get("model"), place, ts=ts, usage=usage)
        output = message.get("output")
        if isinstance(output, list) and output:
            self._read_output(output, message, writer)
        else:
            self._read_content(message, writer)
        if message.get("done") is False:
            writer.add_annotation("message_facts", broke_off=True)
        writer.close()
        return writer.last

    def _read_output(self, output: list[Any], message: JsonObject, writer: MessageWriter) -> None:
        """Read the items of an answer; its content is the same as text, unless it was edited."""
        model = as_text(message.get("model"))
        actors = ItemActors(self._draft, model=model, provider=self._chat.name_provider(model))
        texts: list[str] = []
        for item in output:
            if _is_empty_message(item):
                # The beginning of an answer that never came.
                continue
            add_item(
                self._draft,
                item,
                actors,
                ts=writer.ts,
                place=writer.place,
                actor=writer.actor,
                group=writer.place,
            )
            texts += _list_texts(item)
        known = "".join("\n".join(texts).split())
        content = message.get("content")
        if content and not _is_said(content, known):
            writer.add_annotation("message_facts", content=content)
        files = [build_file_block(file) for file in as_dicts(message.get("files"))]
        if files:
            writer.add_message(files)

    def _read_content(self, message: JsonObject, writer: MessageWriter) -> None:
        content = message.get("content")
        count = self._draft.count
        if isinstance(content, str):
            for kind, part in split_details(content):
                if kind == "reasoning":
                    writer.add_reasoning(part)
                elif kind == "tool_calls":
                    writer.add_tool_call(part["id"], part["name"], part["arguments"])
                    if "result" in part:
                        writer.add_tool_result(part["id"], part["result"], part["name"])
                else:
                    writer.add_message(part)
            content = None
        blocks = _build_content(content, message)
        if blocks:
            writer.add_message(blocks)
        if self._draft.count == count and not message.get("error"):
            self._draft.note_omission("empty-message", writer.place, "message without text")


def _is_said(content: Any, known: str) -> bool:
    """Return whether every text of a content is known from its items."""
    if not isinstance(content, str):
        return False
    for kind, part in split_details(content):
        if kind == "text" and "".join(part.split()) not in known:
            return False
    return True


def _is_empty_message(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("type") != "message":
        return False
    parts = item.get("content")
    return isinstance(parts, list) and not any(_get_part_text(part) for part in parts)


def _get_part_text(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "output_text":
        return part.get("text")
    return part


def _list_texts(item: Any) -> list[str]:
    parts = as_dicts(item.get("content")) if isinstance(item, dict) else []
    texts = [get_text(part, "text") for part in parts]
    return [text for text in texts if text]


def _build_content(content: Any, message: JsonObject) -> Any:
    """Return a text, or a list of blocks where there are files or blocks."""
    files = [build_file_block(file) for file in as_dicts(message.get("files"))]
    if not files:
        return content
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    elif content is None:
        content = []
    elif not isinstance(content, list):
        content = [content]
    return content + files


def _parse_usage(message: JsonObject) -> Usage | None:
    """Return token counts, under the names of the chat API or of Ollama."""
    for name in ("usage", "info"):
        counts = get_dict(message, name)
        usage = parse_usage(counts) or build_usage(
            input_tokens=get_first(counts, "input_tokens", "prompt_eval_count"),
            output_tokens=get_first(counts, "output_tokens", "eval_count"),
        )
        if usage:
            return usage
    return None
