"""Read the bubbles of a Cursor composer: prompts, reasoning, responses, calls with results."""

from collections.abc import Callable
from typing import Any

import msgspec

from open_token.agents.cursor.conversation import Conversation
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage

_decode = msgspec.json.Decoder().decode
# Composers number the types; the chats before them used words.
_USER_TYPES = (1, "user")
_MODEL_TYPES = (2, "ai", "assistant")
_ATTACHMENT_FIELDS = (
    "attachedCodeChunks",
    "attachedFolders",
    "cursorRules",
    "selections",
    "fileSelections",
    "folderSelections",
)
_FAILED_STATES = ("error", "cancelled", "rejected")

CallHandler = Callable[[str, str | None, Any, Any, str], None]
"""Called with the key, id, arguments and result of each call, and the actor that made it."""


class BubbleReader:
    """Reads the bubbles of one composer."""

    def __init__(self, conversation: Conversation, on_call: CallHandler) -> None:
        self._conversation = conversation
        self._draft = conversation.draft
        self._on_call = on_call

    def read(self, bubble: JsonObject, position: str) -> None:
        """Read one bubble."""
        kind = bubble.get("type")
        ts = _parse_time(bubble.get("createdAt"))
        model = (
            get_text(get_dict(bubble, "modelInfo"), "modelName")
            or get_text(bubble, "modelName")
            or get_text(bubble, "modelType")
        )
        if model:
            self._conversation.model = model
        if kind in _USER_TYPES:
            self._read_prompt(bubble, ts)
        elif kind in _MODEL_TYPES:
            self._read_response(bubble, position, ts)
        else:
            self._draft.note_omission("unknown-record", position, f"bubble {format_kind(kind)}")

    def _read_prompt(self, bubble: JsonObject, ts: str | None) -> None:
        blocks: list[Any] = []
        text = get_text(bubble, "text") or get_text(bubble, "rawText")
        if text:
            blocks.append({"type": "text", "text": text})
        blocks += [_build_image_block(image) for image in get_dicts(bubble, "images")]
        self._conversation.add_prompt(blocks, ts)
        attachments: JsonObject = {}
        context = {
            name: value
            for name, value in get_dict(bubble, "context").items()
            if value and name != "mentions"
        }
        if context:
            attachments["context"] = context
        for name in _ATTACHMENT_FIELDS:
            if bubble.get(name):
                attachments[name] = bubble[name]
        if attachments:
            self._conversation.annotate({"kind": "attachment", **attachments}, ts)

    def _read_response(self, bubble: JsonObject, position: str, ts: str | None) -> None:
        conversation = self._conversation
        actor = conversation.get_model_actor()
        first = self._draft.count
        self._read_reasoning(bubble, actor, ts)
        text = get_text(bubble, "text") or get_text(bubble, "rawText") or ""
        if text and bubble.get("isThought") is True:
            self._draft.add_reasoning(text, actor, ts=ts, span=conversation.span)
        elif text:
            conversation.add_response(text, actor, ts)
        # Code blocks repeat code of the text, or hold code that is not in it.
        code_blocks = [
            _build_code_block(block)
            for block in get_dicts(bubble, "codeBlocks")
            if _is_missing_from(block, text)
        ]
        if code_blocks:
            conversation.add_response(code_blocks, actor, ts)
        tool = get_dict(bubble, "toolFormerData")
        if tool:
            self._read_tool_call(tool, actor, position, ts)
        usage = _parse_usage(bubble.get("tokenCount"))
        if usage is None:
            return
        # The counts are those of the whole bubble: its first event has them.
        if self._draft.count > first:
            self._draft.set_usage(f"evt_{first + 1:06d}", usage)
        else:
            self._draft.add_annotation(
                {"kind": "usage"},
                actor=conversation.client,
                ts=ts,
                span=conversation.span,
                usage=usage,
            )

    def _read_reasoning(self, bubble: JsonObject, actor: str, ts: str | None) -> None:
        texts: list[str | None] = []
        thinking = bubble.get("thinking")
        text = thinking if isinstance(thinking, str) else get_text(thinking, "text")
        if text:
            texts.append(text)
        elif get_text(thinking, "signature"):
            # Only the signature of encrypted reasoning is there.
            texts.append(None)
        else:
            # Some bubbles have a list of blocks instead.
            for block in get_dicts(bubble, "allThinkingBlocks"):
                text = get_text(block, "thinking") or get_text(block, "text")
                if text:
                    texts.append(text)
        for text in texts:
            self._draft.add_reasoning(text, actor, ts=ts, span=self._conversation.span)

    def _read_tool_call(self, tool: JsonObject, actor: str, position: str, ts: str | None) -> None:
        call_id = get_text(tool, "toolCallId")
        # `rawArgs` is what the model wrote, `params` what Cursor parsed from it.
        arguments = _parse_json_text(tool.get("rawArgs")) or _parse_json_text(tool.get("params"))
        name = get_text(tool, "name")
        key = self._conversation.add_call(call_id, name, arguments, actor, position, ts)
        result = _parse_json_text(tool.get("result"))
        self._on_call(key, call_id, arguments, result, actor)
        status = tool.get("status")
        facts: JsonObject = {}
        if status in _FAILED_STATES:
            facts["status"] = status
        if status == "error":
            facts["is_error"] = True
        facts |= pick_fields(tool, "userDecision")
        if result is None:
            result = _get_error(tool)
        if result is not None:
            self._conversation.add_result(key, result, facts, ts)
        elif facts:
            self._conversation.annotate({"kind": "message_facts", **facts}, ts)


def _get_error(tool: JsonObject) -> Any:
    error = _parse_json_text(tool.get("error"))
    if not error:
        return None
    return (
        get_text(error, "modelVisibleErrorMessage")
        or get_text(error, "clientVisibleErrorMessage")
        or error
    )


def _parse_json_text(value: Any) -> Any:
    """Decode a string that holds a JSON object or list; return other text unchanged.

    An empty string becomes None.
    """
    if not isinstance(value, str):
        return value
    try:
        decoded = _decode(value)
    except (ValueError, RecursionError):
        return value or None
    return decoded if isinstance(decoded, dict | list) else value


def _parse_time(value: Any) -> str | None:
    return to_utc(value) if isinstance(value, str) else from_epoch(value, 0.001)


def _parse_usage(counts: Any) -> Usage | None:
    if type(counts) is not dict:
        return None
    usage: Usage = {}
    input_tokens = counts.get("inputTokens")
    output_tokens = counts.get("outputTokens")
    if type(input_tokens) is int and input_tokens > 0:
        usage["input_tokens"] = input_tokens
    if type(output_tokens) is int and output_tokens > 0:
        usage["output_tokens"] = output_tokens
    return usage or None


def _build_image_block(image: JsonObject) -> JsonObject:
    """Return a block with the bytes of an image where the bubble has them."""
    data = get_text(image, "data") or get_text(image, "url")
    if data and data.startswith(("data:", "http")):
        block = build_media_url_block(data, "image")
        used: tuple[str, ...] = ("data", "url", "type")
    else:
        block = {"type": "image"}
        used = ("type",)
    return block | {key: value for key, value in image.items() if key not in used}


def _is_missing_from(block: JsonObject, text: str) -> bool:
    """Return whether a code block is not also in the text of its bubble."""
    content = block.get("content")
    return isinstance(content, str) and content != "" and content not in text


def _build_code_block(block: JsonObject) -> JsonObject:
    return {"type": "code", "text": block["content"], **pick_fields(block, "languageId", "uri")}
