"""A chat of Cursor's command line: a database of blobs, of which the root lists the messages in
order."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.agents.cursor.conversation import LEFT, SPAWNING, Talk, spawned
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Found
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_HASH = 32
_UNPACKED = ("type", "image", "data", "mimeType", "providerOptions")
_MESSAGES = 1
"""The field of the root that lists messages; the others repeat them in another form."""


def read(source: Source, draft: Draft) -> None:
    """Tell the chat as it stands now."""
    _Chat(source, draft).tell()


def conversations(source: Source) -> list[Found]:
    """The one chat that such a database holds."""
    meta = _meta(source) or {}
    name = get_text(meta, "agentId")
    started = from_epoch(meta.get("createdAt"), 0.001)
    return [Found(name, title=get_text(meta, "name"), started_at=started)] if name else []


def _meta(source: Source) -> JsonObject | None:
    value = next(source.rows("SELECT value FROM meta WHERE key = '0'"), (None,))[0]
    try:
        meta = _decode(bytes.fromhex(value))
    except (TypeError, ValueError, RecursionError):
        return None
    return meta if type(meta) is dict else None


class _Chat:
    """One chat while it is told."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._talk = Talk(draft, asker=draft.get_actor("human", "user"), bare_is_typed=False)
        self._calls: dict[str, tuple[str, Any]] = {}
        """Calls that start a subagent, by their id: the key, and what was asked."""
        self._listed: set[str] = set()

    def tell(self) -> None:
        """All that the root lists."""
        meta = self._known()
        names = {"id": get_text(meta, "agentId"), "title": get_text(meta, "name")}
        conversation = self._draft.conversation
        conversation |= {name: value for name, value in names.items() if value}  # type: ignore[typeddict-item]
        if started := from_epoch(meta.get("createdAt"), 0.001):
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        self._talk.model = get_text(meta, "lastUsedModel")
        facts = pick_fields(meta, "mode", "approvalMode", "isRunEverything")
        if parent := get_text(get_dict(meta, "subagentInfo"), "parentComposerId"):
            facts["parent_id"] = parent
        if facts:
            self._talk.note({"kind": "context", **facts})
        root = get_text(meta, "latestRootBlobId")
        for number, message in enumerate(self._messages(root), 1):
            self._message(message, f"message {number}")
        self._left()
        self._talk.providers.set_provider(conversation)

    def _known(self) -> JsonObject:
        meta = _meta(self._source)
        if meta is None:
            self._draft.note_omission(
                "broken-row", "meta", "the facts about the chat are no JSON object"
            )
        return meta or {}

    def _messages(self, root: str | None) -> Iterator[JsonObject]:
        """The messages that the root lists; without a root that can be read all that there are, as
        they were stored."""
        data = self._blob(root) if root else None
        names = list(_links(data)) if data else []
        if not names:
            self._draft.note_omission(
                "no-root",
                "meta",
                "no list of messages: they are told in the order in which they lie",
            )
            for (raw,) in self._source.rows("SELECT data FROM blobs ORDER BY rowid"):
                if (message := _message_in(raw)) is not None:
                    yield message
            return
        for name in names:
            message = _message_in(self._blob(name))
            if message is None:
                self._draft.note_omission(
                    "missing-blob", f"blob {name[:12]}", "a message that is listed and not there"
                )
            else:
                yield message
        self._listed = set(names)

    def _left(self) -> None:
        """Messages of an earlier state lie there still, as they were stored: a branch that was
        left."""
        if not self._listed:
            return
        draft, before = self._draft, self._draft.count
        rows = self._source.rows(
            "SELECT id, data FROM blobs WHERE hex(substr(data, 1, 1)) = '7B' ORDER BY rowid"
        )
        found = (_message_in(raw) for name, raw in rows if name not in self._listed)
        for number, message in enumerate(filter(None, found), 1):
            if draft.branches != "all":
                draft.note_omission(
                    "unlisted-message",
                    "blobs",
                    "a message of an earlier state, before a summary or an edit",
                )
            else:
                self._message(message, f"unlisted message {number}")
        if draft.count > before:
            draft.drop_branch(before, draft.count, dict(LEFT), self._talk.client)

    def _blob(self, name: str) -> Any:
        return next(self._source.rows("SELECT data FROM blobs WHERE id = ?", (name,)), (None,))[0]

    def _message(self, message: JsonObject, place: str) -> None:
        role, content = message["role"], message.get("content")
        blocks = content if isinstance(content, list) else [] if content is None else [content]
        options = get_dict(get_dict(message, "providerOptions"), "cursor")
        if role == "assistant":
            actor = self._talk.speaker(get_text(options, "modelName"))
            for block in blocks:
                self._said(block, actor, place)
        elif role == "tool":
            for block in blocks:
                self._result(block, options, place)
        elif role == "system":
            self._draft.add_message("system", _content(blocks), self._talk.client)
        elif options.get("isSummary") is True:
            said = self._draft.add_message(
                "user", _content(blocks), self._talk.client, visibility="internal"
            )
            self._draft.add_annotation({"kind": "compaction_summary"}, parent=said)
        else:
            self._talk.prompt([_block(block) for block in blocks])

    def _said(self, block: Any, actor: str, place: str) -> None:
        kind = block.get("type") if type(block) is dict else "text"
        if kind == "tool-call":
            native, tool = get_text(block, "toolCallId"), get_text(block, "toolName")
            arguments = block.get("args", block.get("input"))
            key = self._talk.call(native, tool, arguments, actor, place)
            if tool in SPAWNING and native:
                self._calls[native] = key, arguments
        elif kind in ("reasoning", "redacted-reasoning"):
            words = get_text(block, "text")
            if words or block.get("signature") or block.get("data"):
                self._draft.add_reasoning(words, actor)
            else:
                self._draft.note_omission("empty-reasoning", place, "reasoning without words")
        elif kind == "tool-result":
            self._result(block, {}, place)
        elif kind in ("text", "image", "file"):
            if (content := _content([block])) != "":
                self._talk.say(content, actor)
        else:
            self._draft.note_omission("unknown-part", place, f"part {format_kind(kind)}")

    def _result(self, block: Any, options: JsonObject, place: str) -> None:
        if type(block) is not dict or block.get("type") != "tool-result":
            self._draft.note_omission("unknown-part", place, "part in a message of a tool")
            return
        told = get_dict(options, "highLevelToolCallResult")
        native = get_text(block, "toolCallId")
        failed = block.get("isError") is True or told.get("isError") is True
        output = block.get("result", block.get("output"))
        if output is None:
            output = block.get("experimental_content", "")
        facts = {"is_error": True} if failed else {}
        success = get_dict(get_dict(told, "output"), "success")
        self._spawned(native, success, place)
        facts |= pick_fields(success, "executionTime", "exitCode", "durationMs")
        if told.get("output") is not None:
            self._draft.note_omission(
                "tool-metadata", place, "side data of a result that the model never saw"
            )
        self._talk.result(
            native, [_block(item) for item in output] if isinstance(output, list) else output, facts
        )

    def _spawned(self, native: str | None, success: JsonObject, place: str) -> None:
        """A subagent; what it did is only in side data of its result."""
        call = self._calls.pop(native, None) if native else None
        name, draft = get_text(success, "agentId"), self._draft
        if call is None or name is None:
            return
        if draft.subagents == "none":
            draft.note_omission(
                "subagent", place, "what a subagent did is left out (subagents=none)"
            )
            return
        data = {"kind": "subagent", **spawned(call[1]), "agent_id": name, "reference": name}
        span = draft.start_span(data, self._talk.speaker(), call=call[0])
        draft.end_span(span, call=call[0])
        if success.get("conversationSteps"):
            draft.note_omission(
                "subagent-steps", place, "the steps of a subagent in the side data of its result"
            )


def _message_in(raw: Any) -> JsonObject | None:
    """The message that a blob holds; other blobs are lists of them and state."""
    raw = raw.encode() if isinstance(raw, str) else raw
    if not isinstance(raw, bytes) or not raw.startswith(b"{"):
        return None
    try:
        value = _decode(raw)
    except (ValueError, RecursionError):
        return None
    return (
        value
        if type(value) is dict and value.get("role") in ("system", "user", "assistant", "tool")
        else None
    )


def _links(data: Any) -> Iterator[str]:
    """The hashes that a list of messages holds, which is a protocol buffer: a key, a length, the
    bytes, and so on."""
    if not isinstance(data, bytes):
        return
    place, end = 0, len(data)
    while place < end:
        key, place = _number(data, place)
        if key & 7 == 2:
            size, place = _number(data, place)
            if key >> 3 == _MESSAGES and size == _HASH and place + size <= end:
                yield data[place : place + size].hex()
            place += size
        elif key & 7 == 0:
            _, place = _number(data, place)
        elif key & 7 in (1, 5):
            place += 8 if key & 7 == 1 else 4
        else:
            return


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it; a broken one ends the list."""
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    return 3, len(data)


def _content(blocks: list[Any]) -> str | list[Any]:
    made = [_block(block) for block in blocks]
    if len(made) == 1 and type(made[0]) is dict and made[0].get("type") == "text":
        text = made[0].get("text")
        if isinstance(text, str):
            return text
    return made


def _block(block: Any) -> Any:
    """A block as it stands in the record, without what Cursor says to its own server."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if type(block) is not dict:
        return block
    data = block.get("image", block.get("data"))
    rest = {key: value for key, value in block.items() if key not in _UNPACKED}
    if block.get("type") in ("image", "file") and isinstance(data, str):
        kind = str(block["type"])
        is_address = data.startswith(("data:", "http:", "https:"))
        return (
            build_media_url_block(data, kind)
            if is_address
            else build_media_block(get_text(block, "mimeType"), data, kind)
        ) | rest
    return {key: value for key, value in block.items() if key != "providerOptions"}
