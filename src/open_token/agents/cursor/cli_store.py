"""Read a chat of Cursor's command line: a database of blobs, with a root that lists messages."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.agents.cursor.conversation import (
    SPAWNING_TOOLS,
    UNLISTED_BRANCH,
    Conversation,
    describe_subagent,
    note_left_out_subagent,
)
from open_token.builder.draft import Draft
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Found
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_ROLES = ("system", "user", "assistant", "tool")
_HASH_SIZE = 32
_MESSAGES_FIELD = 1
"""The field of the root that lists messages; the others repeat them in another form."""
_MEDIA_FIELDS = ("type", "image", "data", "mimeType", "providerOptions")
_JSON_BLOBS_SQL = """
    SELECT id, data FROM blobs WHERE hex(substr(data, 1, 1)) = '7B' ORDER BY rowid
"""


def read_chat(source: Source, draft: Draft) -> None:
    """Read the current state of the chat."""
    _ChatReader(source, draft).read()


def list_chats(source: Source) -> list[Found]:
    """List the one chat that such a database holds."""
    meta = _read_meta(source) or {}
    chat_id = get_text(meta, "agentId")
    if chat_id is None:
        return []
    started_at = from_epoch(meta.get("createdAt"), 0.001)
    return [Found(chat_id, title=get_text(meta, "name"), started_at=started_at)]


def _read_meta(source: Source) -> JsonObject | None:
    value = next(source.rows("SELECT value FROM meta WHERE key = '0'"), (None,))[0]
    try:
        meta = _decode(bytes.fromhex(value))
    except (TypeError, ValueError, RecursionError):
        return None
    return meta if type(meta) is dict else None


class _ChatReader:
    """Reads one chat."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        user = draft.get_actor("human", "user")
        self._conversation = Conversation(draft, asker=user, bare_is_typed=False)
        self._spawning_calls: dict[str, tuple[str, Any]] = {}
        """The keys and arguments of calls that start a subagent, by their ids."""
        self._listed: set[str] = set()

    def read(self) -> None:
        """Read the messages that the root lists, and those it no longer lists."""
        meta = _read_meta(self._source)
        if meta is None:
            self._draft.note_omission(
                "broken-row", "meta", "metadata of the chat that is not a JSON object"
            )
            meta = {}
        self._read_context(meta)
        root = get_text(meta, "latestRootBlobId")
        for number, message in enumerate(self._iterate_messages(root), 1):
            self._read_message(message, f"message {number}")
        self._read_unlisted_messages()
        self._conversation.providers.set_provider(self._draft.conversation)

    def _read_context(self, meta: JsonObject) -> None:
        self._draft.conversation["source_runtime"] = "cli"
        set_conversation_facts(
            self._draft,
            conversation_id=get_text(meta, "agentId"),
            title=get_text(meta, "name"),
            started_at=from_epoch(meta.get("createdAt"), 0.001),
        )
        self._conversation.model = get_text(meta, "lastUsedModel")
        facts = pick_fields(meta, "mode", "approvalMode", "isRunEverything")
        parent = get_text(get_dict(meta, "subagentInfo"), "parentComposerId")
        if parent:
            facts["parent_id"] = parent
        if facts:
            self._conversation.annotate({"kind": "context", **facts})

    def _iterate_messages(self, root: str | None) -> Iterator[JsonObject]:
        """Yield the messages that the root lists; all messages if the root cannot be read."""
        data = self._read_blob(root) if root else None
        names = list(parse_message_list(data)) if data else []
        if not names:
            self._draft.note_omission(
                "no-root", "meta", "list of messages; they are exported in storage order"
            )
            for (raw,) in self._source.rows("SELECT data FROM blobs ORDER BY rowid"):
                message = _decode_message(raw)
                if message is not None:
                    yield message
            return
        for name in names:
            message = _decode_message(self._read_blob(name))
            if message is None:
                self._draft.note_omission(
                    "missing-blob", f"blob {name[:12]}", "message that is listed but missing"
                )
            else:
                yield message
        self._listed = set(names)

    def _read_unlisted_messages(self) -> None:
        """Read the messages of earlier states, which stay in the database, as a branch."""
        if not self._listed:
            return
        draft = self._draft
        first = draft.count
        number = 0
        for name, raw in self._source.rows(_JSON_BLOBS_SQL):
            if name in self._listed:
                continue
            message = _decode_message(raw)
            if message is None:
                continue
            number += 1
            if draft.branches == "all":
                self._read_message(message, f"unlisted message {number}")
            else:
                draft.note_omission(
                    "unlisted-message",
                    "blobs",
                    "message of an earlier state, before a summary or an edit",
                )
        if draft.count > first:
            client = self._conversation.client
            draft.drop_branch(first, draft.count, dict(UNLISTED_BRANCH), client)

    def _read_blob(self, name: str) -> Any:
        rows = self._source.rows("SELECT data FROM blobs WHERE id = ?", (name,))
        return next(rows, (None,))[0]

    def _read_message(self, message: JsonObject, position: str) -> None:
        role = message["role"]
        blocks = message.get("content")
        if blocks is None:
            blocks = []
        elif not isinstance(blocks, list):
            blocks = [blocks]
        options = get_dict(get_dict(message, "providerOptions"), "cursor")
        client = self._conversation.client
        if role == "assistant":
            actor = self._conversation.get_model_actor(get_text(options, "modelName"))
            for block in blocks:
                self._read_model_block(block, actor, position)
        elif role == "tool":
            for block in blocks:
                self._read_result(block, options, position)
        elif role == "system":
            self._draft.add_message("system", _convert_content(blocks), client)
        # A summary replaces earlier messages of the context.
        elif options.get("isSummary") is True:
            content = _convert_content(blocks)
            event = self._draft.add_message("user", content, client, visibility="internal")
            self._draft.add_annotation({"kind": "compaction_summary"}, parent=event)
        else:
            self._conversation.add_prompt([_convert_block(block) for block in blocks])

    def _read_model_block(self, block: Any, actor: str, position: str) -> None:
        kind = block.get("type") if type(block) is dict else "text"
        if kind == "tool-call":
            call_id = get_text(block, "toolCallId")
            tool = get_text(block, "toolName")
            arguments = block.get("args", block.get("input"))
            key = self._conversation.add_call(call_id, tool, arguments, actor, position)
            if tool in SPAWNING_TOOLS and call_id:
                self._spawning_calls[call_id] = (key, arguments)
        elif kind in ("reasoning", "redacted-reasoning"):
            text = get_text(block, "text")
            if text or block.get("signature") or block.get("data"):
                self._draft.add_reasoning(text, actor)
            else:
                self._draft.note_omission("empty-reasoning", position, "reasoning without text")
        elif kind == "tool-result":
            self._read_result(block, {}, position)
        elif kind in ("text", "image", "file"):
            content = _convert_content([block])
            if content != "":
                self._conversation.add_response(content, actor)
        else:
            self._draft.note_omission("unknown-part", position, f"part {format_kind(kind)}")

    def _read_result(self, block: Any, options: JsonObject, position: str) -> None:
        if type(block) is not dict or block.get("type") != "tool-result":
            self._draft.note_omission("unknown-part", position, "part in a message of a tool")
            return
        # Cursor's own view of the result, with more than the model saw.
        metadata = get_dict(options, "highLevelToolCallResult")
        call_id = get_text(block, "toolCallId")
        # The name of the field depends on the version.
        output = block.get("result", block.get("output"))
        if output is None:
            output = block.get("experimental_content", "")
        if isinstance(output, list):
            output = [_convert_block(item) for item in output]
        facts: JsonObject = {}
        if block.get("isError") is True or metadata.get("isError") is True:
            facts["is_error"] = True
        success = get_dict(get_dict(metadata, "output"), "success")
        self._add_subagent(call_id, success, position)
        facts |= pick_fields(success, "executionTime", "exitCode", "durationMs")
        if metadata.get("output") is not None:
            self._draft.note_omission(
                "tool-metadata", position, "metadata of a result that the model did not see"
            )
        self._conversation.add_result(call_id, output, facts)

    def _add_subagent(self, call_id: str | None, success: JsonObject, position: str) -> None:
        """Add a reference to a subagent; its messages are not in this database."""
        call = self._spawning_calls.pop(call_id, None) if call_id else None
        agent_id = get_text(success, "agentId")
        if call is None or agent_id is None:
            return
        draft = self._draft
        if draft.subagents == "none":
            note_left_out_subagent(draft, position)
            return
        key, arguments = call
        span = self._conversation.start_subagent(
            agent_id,
            key,
            describe_subagent(arguments),
            is_inline=False,
            asker=self._conversation.get_model_actor(),
        )
        draft.end_span(span, call=key)
        if success.get("conversationSteps"):
            draft.note_omission(
                "subagent-steps", position, "steps of a subagent in the metadata of its result"
            )


def _decode_message(raw: Any) -> JsonObject | None:
    """Return the message in a blob; other blobs hold lists of messages, and state."""
    # SQLite returns text or bytes, as the row was written.
    if isinstance(raw, str):
        raw = raw.encode()
    if not isinstance(raw, bytes) or not raw.startswith(b"{"):
        return None
    try:
        value = _decode(raw)
    except (ValueError, RecursionError):
        return None
    if type(value) is dict and value.get("role") in _ROLES:
        return value
    return None


def parse_message_list(data: Any) -> Iterator[str]:
    """Yield the hashes in a list of messages, which is a protocol buffer.

    Stop at the first byte that cannot be parsed.
    """
    if not isinstance(data, bytes):
        return
    position = 0
    end = len(data)
    while position < end:
        key, position = _parse_varint(data, position)
        field = key >> 3
        wire_type = key & 7
        if wire_type == 2:  # a length and that many bytes
            size, position = _parse_varint(data, position)
            if field == _MESSAGES_FIELD and size == _HASH_SIZE and position + size <= end:
                yield data[position : position + size].hex()
            position += size
        elif wire_type == 0:  # a varint
            _, position = _parse_varint(data, position)
        elif wire_type == 1:  # 64 bits
            position += 8
        elif wire_type == 5:  # 32 bits
            position += 4
        else:
            return


def _parse_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the position after it.

    A damaged number is returned as 3, an unused wire type, at the end of the data.
    """
    value = 0
    shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    return 3, len(data)


def _convert_content(blocks: list[Any]) -> str | list[Any]:
    """Return a single text as a string, other content as a list of blocks."""
    converted = [_convert_block(block) for block in blocks]
    if len(converted) == 1:
        block = converted[0]
        if type(block) is dict and block.get("type") == "text":
            text = block.get("text")
            if isinstance(text, str):
                return text
    return converted


def _convert_block(block: Any) -> Any:
    """Return a block without the options for Cursor's server, and with media unpacked."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if type(block) is not dict:
        return block
    kind = block.get("type")
    data = block.get("image", block.get("data"))
    if kind not in ("image", "file") or not isinstance(data, str):
        return {key: value for key, value in block.items() if key != "providerOptions"}
    if data.startswith(("data:", "http:", "https:")):
        converted = build_media_url_block(data, kind)
    else:
        converted = build_media_block(get_text(block, "mimeType"), data, kind)
    other_fields = {key: value for key, value in block.items() if key not in _MEDIA_FIELDS}
    return converted | other_fields
