"""Tells a conversation of a Claude.ai export: its messages in a line or a tree, their blocks, what
was attached."""

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
from open_token.formats.shared.export_archive import (
    ExportedConversation,
    ExportedConversations,
    note_empty_conversation,
)
from open_token.formats.shared.fields import JsonObject, as_text, pick_fields
from open_token.formats.shared.message_tree import BEGIN, NODE, BranchRecorder, walk_tree
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found, Role
from open_token.sources.source import Source

_SENDERS: dict[Any, Role] = {"human": "user", "user": "user", "assistant": "assistant"}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_MARKS = ("token_budget", "flag")
_ABOUT_CALL = ("message", "integration_name", "is_mcp_app", "mcp_server_url")
_CONTEXT = ("summary", "project", "project_uuid")
_USUAL_ENDS = ("end_turn", "stop_sequence", "tool_use", None)


def _read_part(source: Source, draft: Draft, parts: ExportedConversations) -> None:
    """Tell the chosen conversation to the draft."""
    parts.note_other_content(draft)
    _Conversation(draft, parts.get_selected(source).value).tell()
    note_empty_conversation(source, draft)


class _Conversation:
    """One conversation on its way into the draft."""

    def __init__(self, draft: Draft, value: JsonObject) -> None:
        self._draft = draft
        self._value = value
        self._model = as_text(value.get("model"))

    def tell(self) -> None:
        self._tell_facts()
        branches = BranchRecorder(self._draft, "another message took its place")
        messages = self._messages()
        parents = _parents(messages)
        leaf = as_text(self._value.get("current_leaf_message_uuid"))
        last = next(reversed(messages), None)
        for what, key in walk_tree(parents, leaf if leaf in messages else last):
            if what == NODE:
                self._tell_message(*messages[key])
            elif what == BEGIN:
                branches.begin()
            else:
                branches.end()
        branches.close()

    def _tell_facts(self) -> None:
        facts, value = self._draft.conversation, self._value
        facts["source_runtime"] = "web"
        facts["provider"] = "anthropic"
        if name := as_text(value.get("uuid")):
            facts["id"] = name
        if title := as_text(value.get("name")):
            facts["title"] = title
        if started := to_utc(value.get("created_at")):
            facts["started_at"] = started
        if context := {name: value[name] for name in _CONTEXT if value.get(name)}:
            self._draft.add_annotation({"kind": "context", **context})

    def _messages(self) -> dict[str, tuple[JsonObject, str]]:
        """The messages by id, each with its place; one without an id, or with a repeated one, gets
        a number."""
        made: dict[str, tuple[JsonObject, str]] = {}
        for number, message in enumerate(self._value["chat_messages"], 1):
            place = f"message {number}"
            if not isinstance(message, dict):
                self._draft.note_omission(
                    "unknown-record", place, "a message that is not an object"
                )
                continue
            name = as_text(message.get("uuid"))
            made[name if name and name not in made else f"\0{number}"] = (message, place)
        return made

    def _tell_message(self, message: JsonObject, place: str) -> None:
        sender = message.get("sender")
        role = _SENDERS.get(sender.lower()) if isinstance(sender, str) else None
        if role is None:
            self._draft.note_omission("unknown-role", place, f"sender {format_kind(sender)}")
            return
        ts = to_utc(message.get("created_at"))
        blocks = _blocks(message)
        attached = _attached(message)
        voice = self._voice(role, place, ts)
        _Message(voice, role).tell(blocks + attached)
        _note(message, voice)

    def _voice(self, role: Role, place: str, ts: str | None) -> MessageWriter:
        if role == "user":
            actor = self._draft.get_actor("human", "user")
        else:
            actor = self._draft.get_actor(
                "model", "assistant", provider="anthropic", model=self._model
            )
        # Results without an id stand in the message of their call: a call of an earlier one never
        # takes them.
        return MessageWriter(self._draft, actor, CallMatcher(self._draft), place, ts)


def _note(message: JsonObject, voice: MessageWriter) -> None:
    """What is known of a message beside its words."""
    facts: JsonObject = {}
    if message.get("stop_reason") not in _USUAL_ENDS:
        facts["stop_reason"] = message["stop_reason"]
    if message.get("truncated") is True:
        facts["truncated"] = True
    if facts:
        voice.add_annotation("message_facts", **facts)


def _parents(messages: dict[str, tuple[JsonObject, str]]) -> dict[str, str | None]:
    """Who follows whom: as the API's form says, else each the one before it."""
    named = {
        key: as_text(message.get("parent_message_uuid")) for key, (message, _) in messages.items()
    }
    is_tree = any(parent in messages for parent in named.values())
    made: dict[str, str | None] = {}
    before: str | None = None
    for key, (message, _) in messages.items():
        made[key] = named[key] if is_tree and "parent_message_uuid" in message else before
        before = key
    return made


def _blocks(message: JsonObject) -> list[Any]:
    """What a message holds; its `text` repeats the words, and holds them alone in old exports."""
    content = message.get("content")
    blocks = [block for block in content if block is not None] if isinstance(content, list) else []
    text = content if isinstance(content, str) else message.get("text")
    if isinstance(text, str) and not any(_says(block) for block in blocks):
        return [{"type": "text", "text": text}]
    if isinstance(text, str) and text and not any(map(_is_known, blocks)):
        return [{"type": "text", "text": text}, *blocks]
    return blocks


def _is_known(block: Any) -> bool:
    """Whether a block is of a kind whose words are found; those of others may stand beside it
    only."""
    kind = get_block_type(block)
    if kind == "text":
        return isinstance(block.get("text"), str)
    return (
        kind in THINKING_TYPES
        or kind in _CALLS
        or kind in _MARKS
        or (kind or "").endswith("tool_result")
    )


def _says(block: Any) -> bool:
    return get_block_type(block) != "text" or bool(block.get("text"))


def _attached(message: JsonObject) -> list[Any]:
    """What was attached: texts that were taken out of files, and the names of files."""
    made: list[Any] = []
    for item in _objects(message.get("attachments")):
        block: JsonObject = {"type": "document", **_file(item)}
        made.append(
            block
            | (
                {"text": item["extracted_content"]}
                if as_text(item.get("extracted_content"))
                else {}
            )
        )
    seen = set()
    for item in _objects(message.get("files")) + _objects(message.get("files_v2")):
        about = _file(item)
        key = (about.get("id"), about.get("name"))
        if about and key not in seen:
            seen.add(key)
            made.append({"type": as_text(item.get("file_kind")) or "file", **about})
    return made


def _file(item: JsonObject) -> JsonObject:
    names = {
        "name": "file_name",
        "id": "file_uuid",
        "media_type": "file_type",
        "bytes": "file_size",
    }
    kinds = {"bytes": int}
    return {
        made: item[name]
        for made, name in names.items()
        if item.get(name) and isinstance(item[name], kinds.get(made, str))
    }


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class _Message:
    """The blocks of one message, in order: words that stand side by side are one event."""

    def __init__(self, voice: MessageWriter, role: Role) -> None:
        self._voice = voice
        self._role = role
        self._held: list[Any] = []
        self._ts = voice.ts

    def tell(self, blocks: list[Any]) -> None:
        before = self._voice.draft.count
        for block in blocks:
            kind = get_block_type(block)
            if kind != "text" and _is_known(block):
                self._say()
                self._voice.ts = to_utc(block.get("start_timestamp")) or self._ts
                self._do(block, str(kind))
            else:
                self._hold(block)
        self._say()
        if self._voice.draft.count == before:
            self._voice.ts = self._ts
            self._voice.add_message("", self._role)

    def _hold(self, block: Any) -> None:
        if not self._held and isinstance(block, dict):
            self._voice.ts = to_utc(block.get("start_timestamp")) or self._ts
        self._held.append(_bare(block))

    def _say(self) -> None:
        held, self._held = [block for block in self._held if _says(block)], []
        if held:
            BlockWriter(self._voice, self._role).add_content(held)

    def _do(self, block: JsonObject, kind: str) -> None:
        """Tell a block that is more than words."""
        voice = self._voice
        if kind in THINKING_TYPES:
            self._think(block)
        elif kind in _CALLS:
            given = block.get("input")
            extra = pick_fields(block, *_ABOUT_CALL)
            voice.add_tool_call(
                as_text(block.get("id")),
                as_text(block.get("name")) or "tool",
                {} if given is None else given,
                extra,
            )
        elif kind == "token_budget":
            voice.draft.note_omission(
                "token-budget", voice.place, "a mark of the runtime's own budget"
            )
        elif kind == "flag":
            voice.add_annotation("flag", **pick_fields(block, "flag", "helpline"))
        else:
            self._answer(block)

    def _think(self, block: JsonObject) -> None:
        for item in _objects(block.get("summaries")):
            if summary := as_text(item.get("summary")):
                self._voice.add_reasoning(summary, summary=True)
            else:
                self._voice.draft.note_omission(
                    "empty-reasoning", self._voice.place, "a summary without words"
                )
        words = as_text(block.get("thinking"))
        if words or get_block_type(block) == "redacted_thinking":
            self._voice.add_reasoning(words)
        elif not block.get("summaries"):
            self._voice.draft.note_omission(
                "empty-reasoning", self._voice.place, "a thought without words"
            )
        if block.get("cut_off") is True:
            self._voice.draft.add_annotation(
                {"kind": "message_facts", "cut_off": True},
                actor=self._voice.actor,
                ts=self._voice.ts,
            )

    def _answer(self, block: JsonObject) -> None:
        facts: JsonObject = {"is_error": True} if block.get("is_error") is True else {}
        content = block.get("content")
        output = parse_output(
            [_bare(item) for item in content] if isinstance(content, list) else content
        )
        structured = block.get("structured_content")
        if structured is not None and output == "":
            output = structured
        elif structured is not None:
            facts["structured_content"] = structured
        tool = as_text(block.get("name"))
        self._voice.add_tool_result(as_text(block.get("tool_use_id")), output, tool, facts or None)


def _bare(block: Any) -> Any:
    """A block without the clock and what only the page needs."""
    if not isinstance(block, dict):
        return block
    left = ("start_timestamp", "stop_timestamp", "flags")
    return unpack_block(
        {
            name: value
            for name, value in block.items()
            if name not in left and value not in (None, [])
        }
    )


def list_conversations(source: Source) -> list[Found]:
    """The conversations of the export, in its order."""
    return LAYOUT.find_conversations(source).list_all(_found)


def _found(part: ExportedConversation) -> Found:
    value = part.value
    name = value.get("name")
    return Found(
        part.id,
        title=name if isinstance(name, str) and name else None,
        started_at=to_utc(value.get("created_at")),
        updated_at=to_utc(value.get("updated_at")),
        messages=len(value["chat_messages"]),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    _read_part(source, draft, LAYOUT.find_conversations(source))
