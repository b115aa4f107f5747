"""Read a conversation of a Claude.ai export: a list or a tree of messages, with attachments."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.claude_ai_export.detect import LAYOUT
from open_token.formats.shared.anthropic_api import BlockWriter
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    get_block_type,
    parse_output,
    unpack_block,
)
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.fields import JsonObject, as_text, pick_fields
from open_token.formats.shared.message_tree import MessageTree
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found, Role
from open_token.sources.source import Source

_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_MARKERS = ("token_budget", "flag")
_CALL_FACTS = ("message", "integration_name", "is_mcp_app", "mcp_server_url")
_CONTEXT_FIELDS = ("summary", "project", "project_uuid")
_USUAL_STOP_REASONS = ("end_turn", "stop_sequence", "tool_use", None)
_DISPLAY_FIELDS = ("start_timestamp", "stop_timestamp", "flags")


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(
        source, draft, lambda part: _ConversationReader(draft, part.value).read()
    )


def list_conversations(source: Source) -> list[Found]:
    """List the conversations, in the order of the export."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    conversation = part.value
    title = conversation.get("name")
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=to_utc(conversation.get("created_at")),
        updated_at=to_utc(conversation.get("updated_at")),
        messages=len(conversation["chat_messages"]),
    )


class _ConversationReader:
    """Reads one conversation."""

    def __init__(self, draft: Draft, conversation: JsonObject) -> None:
        self._draft = draft
        self._conversation = conversation
        self._model = as_text(conversation.get("model"))

    def read(self) -> None:
        self._read_facts()
        # The API names parents; in the export each message follows the one before it.
        tree = MessageTree(self._draft, ("uuid",), ("parent_message_uuid",))
        for number, message in enumerate(self._conversation["chat_messages"], 1):
            tree.add(message, f"message {number}")
        tree.read(as_text(self._conversation.get("current_leaf_message_uuid")), self._read_message)

    def _read_facts(self) -> None:
        facts = self._draft.conversation
        conversation = self._conversation
        facts["source_runtime"] = "web"
        facts["provider"] = "anthropic"
        set_conversation_facts(
            self._draft,
            conversation_id=as_text(conversation.get("uuid")),
            title=as_text(conversation.get("name")),
            started_at=to_utc(conversation.get("created_at")),
        )
        context = {name: conversation[name] for name in _CONTEXT_FIELDS if conversation.get(name)}
        if context:
            self._draft.add_annotation({"kind": "context", **context})

    def _read_message(self, message: JsonObject, place: str) -> None:
        sender = message.get("sender")
        role = _ROLES.get(sender.lower()) if isinstance(sender, str) else None
        if role is None:
            self._draft.note_omission("unknown-role", place, f"sender {format_kind(sender)}")
            return
        if role == "user":
            actor = self._draft.get_actor("human", "user")
        else:
            actor = self._draft.get_actor(
                "model", "assistant", provider="anthropic", model=self._model
            )
        # New calls for each message: results without an id answer only calls of their own message.
        calls = CallMatcher(self._draft)
        writer = MessageWriter(self._draft, actor, calls, place, to_utc(message.get("created_at")))
        _BlockReader(writer, role).read(_get_blocks(message) + _read_attachments(message))
        facts: JsonObject = {}
        if message.get("stop_reason") not in _USUAL_STOP_REASONS:
            facts["stop_reason"] = message["stop_reason"]
        if message.get("truncated") is True:
            facts["truncated"] = True
        if facts:
            writer.add_annotation("message_facts", **facts)


def _get_blocks(message: JsonObject) -> list[Any]:
    """Return the blocks of a message.

    `text` repeats the texts of the blocks; in old exports it is all there is.
    """
    content = message.get("content")
    blocks: list[Any] = []
    if isinstance(content, list):
        blocks = [block for block in content if block is not None]
    text = content if isinstance(content, str) else message.get("text")
    if not isinstance(text, str):
        return blocks
    if not any(_has_content(block) for block in blocks):
        return [{"type": "text", "text": text}]
    if text and not any(_is_known(block) for block in blocks):
        # Blocks of unknown types: their text may be in `text` only.
        return [{"type": "text", "text": text}, *blocks]
    return blocks


def _is_known(block: Any) -> bool:
    """Return whether a block is of a type whose content can be read."""
    kind = get_block_type(block)
    if kind is None:
        return False
    if kind == "text":
        return isinstance(block.get("text"), str)
    if kind in THINKING_TYPES or kind in _CALLS or kind in _MARKERS:
        return True
    return kind.endswith("tool_result")


def _has_content(block: Any) -> bool:
    return get_block_type(block) != "text" or bool(block.get("text"))


def _read_attachments(message: JsonObject) -> list[Any]:
    """Return attachments as blocks: texts that were extracted from files, and names of files."""
    blocks: list[Any] = []
    for item in _get_objects(message, "attachments"):
        block: JsonObject = {"type": "document", **_get_file_facts(item)}
        if as_text(item.get("extracted_content")):
            block["text"] = item["extracted_content"]
        blocks.append(block)
    # `files_v2` may repeat `files`.
    known: set[tuple[Any, Any]] = set()
    for item in _get_objects(message, "files") + _get_objects(message, "files_v2"):
        facts = _get_file_facts(item)
        identity = (facts.get("id"), facts.get("name"))
        if facts and identity not in known:
            known.add(identity)
            blocks.append({"type": as_text(item.get("file_kind")) or "file", **facts})
    return blocks


def _get_file_facts(item: JsonObject) -> JsonObject:
    facts: JsonObject = {}
    for name, field_name in (
        ("name", "file_name"),
        ("id", "file_uuid"),
        ("media_type", "file_type"),
    ):
        value = item.get(field_name)
        if value and isinstance(value, str):
            facts[name] = value
    size = item.get("file_size")
    if size and isinstance(size, int):
        facts["bytes"] = size
    return facts


def _get_objects(body: JsonObject, name: str) -> list[JsonObject]:
    value = body.get(name)
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


class _BlockReader:
    """Reads the blocks of one message; consecutive texts are one event."""

    def __init__(self, writer: MessageWriter, role: Role) -> None:
        self._writer = writer
        self._draft = writer.draft
        self._role = role
        self._texts: list[Any] = []
        self._message_ts = writer.ts

    def read(self, blocks: list[Any]) -> None:
        before = self._draft.count
        for block in blocks:
            kind = get_block_type(block)
            if kind is not None and kind != "text" and _is_known(block):
                self._flush()
                self._set_time(block)
                self._read_block(block, kind)
            else:
                if not self._texts and isinstance(block, dict):
                    self._set_time(block)
                self._texts.append(_clean_block(block))
        self._flush()
        if self._draft.count == before:
            self._writer.ts = self._message_ts
            self._writer.add_message("", self._role)

    def _set_time(self, block: JsonObject) -> None:
        self._writer.ts = to_utc(block.get("start_timestamp")) or self._message_ts

    def _flush(self) -> None:
        texts = [block for block in self._texts if _has_content(block)]
        self._texts = []
        if texts:
            BlockWriter(self._writer, self._role).add_content(texts)

    def _read_block(self, block: JsonObject, kind: str) -> None:
        if kind in THINKING_TYPES:
            self._read_thinking(block)
        elif kind in _CALLS:
            self._read_call(block)
        elif kind == "token_budget":
            self._draft.note_omission(
                "token-budget", self._writer.place, "a marker of the runtime's token budget"
            )
        elif kind == "flag":
            self._writer.add_annotation("flag", **pick_fields(block, "flag", "helpline"))
        else:
            self._read_result(block)

    def _read_call(self, block: JsonObject) -> None:
        given = block.get("input")
        self._writer.add_tool_call(
            as_text(block.get("id")),
            as_text(block.get("name")) or "tool",
            {} if given is None else given,
            pick_fields(block, *_CALL_FACTS),
        )

    def _read_thinking(self, block: JsonObject) -> None:
        for item in _get_objects(block, "summaries"):
            summary = as_text(item.get("summary"))
            if summary:
                self._writer.add_reasoning(summary, summary=True)
            else:
                self._note_empty("a summary without text")
        text = as_text(block.get("thinking"))
        if text or get_block_type(block) == "redacted_thinking":
            self._writer.add_reasoning(text)
        elif not block.get("summaries"):
            self._note_empty("a thought without text")
        if block.get("cut_off") is True:
            self._draft.add_annotation(
                {"kind": "message_facts", "cut_off": True},
                actor=self._writer.actor,
                ts=self._writer.ts,
            )

    def _note_empty(self, detail: str) -> None:
        self._draft.note_omission("empty-reasoning", self._writer.place, detail)

    def _read_result(self, block: JsonObject) -> None:
        content = block.get("content")
        if isinstance(content, list):
            content = [_clean_block(item) for item in content]
        output = parse_output(content)
        facts: JsonObject = {}
        if block.get("is_error") is True:
            facts["is_error"] = True
        structured = block.get("structured_content")
        if structured is not None:
            if output == "":
                output = structured
            else:
                facts["structured_content"] = structured
        call_id = as_text(block.get("tool_use_id"))
        self._writer.add_tool_result(call_id, output, as_text(block.get("name")), facts or None)


def _clean_block(block: Any) -> Any:
    """Return a block without times, display fields and empty fields."""
    if not isinstance(block, dict):
        return block
    return unpack_block(
        {
            name: value
            for name, value in block.items()
            if name not in _DISPLAY_FIELDS and value not in (None, [])
        }
    )
