"""The bubbles of a Cursor composer: a prompt with what was attached, a thought, an answer, a call
with its result."""

from collections.abc import Callable
from typing import Any

import msgspec

from open_token.agents.cursor.conversation import Talk
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage

_decode = msgspec.json.Decoder().decode
_PERSON, _MODEL = (1, "user"), (2, "ai", "assistant")
_ATTACHED = (
    "attachedCodeChunks",
    "attachedFolders",
    "cursorRules",
    "selections",
    "fileSelections",
    "folderSelections",
)
_FAILED = ("error", "cancelled", "rejected")
Started = Callable[[str, str | None, Any, Any, str], None]


class Bubbles:
    """Tells the bubbles of one composer."""

    def __init__(self, talk: Talk, started: Started) -> None:
        self._talk = talk
        self._draft = talk.draft
        self._started = started

    def tell(self, bubble: JsonObject, place: str) -> None:
        """One bubble."""
        kind, ts = bubble.get("type"), _time(bubble.get("createdAt"))
        model = get_text(get_dict(bubble, "modelInfo"), "modelName") or get_text(
            bubble, "modelName"
        )
        self._talk.model = model or get_text(bubble, "modelType") or self._talk.model
        if kind in _PERSON:
            self._prompt(bubble, ts)
        elif kind in _MODEL:
            self._answer(bubble, place, ts)
        else:
            self._draft.note_omission("unknown-record", place, f"bubble {format_kind(kind)}")

    def _prompt(self, bubble: JsonObject, ts: str | None) -> None:
        text = get_text(bubble, "text") or get_text(bubble, "rawText")
        blocks: list[Any] = [{"type": "text", "text": text}] if text else []
        blocks += [_image(image) for image in get_dicts(bubble, "images")]
        self._talk.prompt(blocks, ts)
        context = {
            name: value
            for name, value in get_dict(bubble, "context").items()
            if value and name != "mentions"
        }
        attached = {name: bubble[name] for name in _ATTACHED if bubble.get(name)}
        if context or attached:
            self._talk.note(
                {"kind": "attachment", **({"context": context} if context else {}), **attached}, ts
            )

    def _answer(self, bubble: JsonObject, place: str, ts: str | None) -> None:
        actor = self._talk.speaker()
        before = self._draft.count
        self._think(bubble, actor, ts)
        text = get_text(bubble, "text") or get_text(bubble, "rawText") or ""
        if bubble.get("isThought") is True and text:
            self._draft.add_reasoning(text, actor, ts=ts, span=self._talk.span)
        elif text:
            self._talk.say(text, actor, ts)
        codes = [
            _code(block) for block in get_dicts(bubble, "codeBlocks") if not _is_in(block, text)
        ]
        if codes:
            self._talk.say(codes, actor, ts)
        if get_dict(bubble, "toolFormerData"):
            self._tool(bubble["toolFormerData"], actor, place, ts)
        if usage := _usage(bubble.get("tokenCount")):
            if self._draft.count > before:
                self._draft.set_usage(f"evt_{before + 1:06d}", usage)
            else:
                self._draft.add_annotation(
                    {"kind": "usage"},
                    actor=self._talk.client,
                    ts=ts,
                    span=self._talk.span,
                    usage=usage,
                )

    def _think(self, bubble: JsonObject, actor: str, ts: str | None) -> None:
        thinking = bubble.get("thinking")
        words = thinking if isinstance(thinking, str) else get_text(thinking, "text")
        if words:
            self._draft.add_reasoning(words, actor, ts=ts, span=self._talk.span)
        elif get_text(thinking, "signature"):
            self._draft.add_reasoning(None, actor, ts=ts, span=self._talk.span)
        else:
            for block in get_dicts(bubble, "allThinkingBlocks"):
                if words := get_text(block, "thinking") or get_text(block, "text"):
                    self._draft.add_reasoning(words, actor, ts=ts, span=self._talk.span)

    def _tool(self, tool: JsonObject, actor: str, place: str, ts: str | None) -> None:
        """A call with its result; the arguments as the model wrote them, else as Cursor understood
        them."""
        native = get_text(tool, "toolCallId")
        given = _parsed(tool.get("rawArgs")) or _parsed(tool.get("params"))
        key = self._talk.call(
            native, get_text(tool, "name"), {} if given is None else given, actor, place, ts
        )
        result = _parsed(tool.get("result"))
        self._started(key, native, given, result, actor)
        status, error = tool.get("status"), _parsed(tool.get("error"))
        facts: JsonObject = {"status": status} if status in _FAILED else {}
        if status == "error":
            facts["is_error"] = True
        facts |= pick_fields(tool, "userDecision")
        if result is None and error:
            result = (
                get_text(error, "modelVisibleErrorMessage")
                or get_text(error, "clientVisibleErrorMessage")
                or error
            )
        if result is None:
            if facts:
                self._talk.note({"kind": "message_facts", **facts}, ts)
            return
        self._talk.result(key, result, facts, ts)


def _parsed(value: Any) -> Any:
    """A value that is JSON in a text as a rule; text that is none stays text, and an empty one is
    nothing."""
    if not isinstance(value, str):
        return value
    try:
        made = _decode(value)
    except (ValueError, RecursionError):
        return value or None
    return made if isinstance(made, dict | list) else value


def _time(value: Any) -> str | None:
    return to_utc(value) if isinstance(value, str) else from_epoch(value, 0.001)


def _usage(counts: Any) -> Usage | None:
    made: Any = {
        told: counts[name]
        for name, told in (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"))
        if type(counts) is dict and type(counts.get(name)) is int and counts[name] > 0
    }
    return made or None


def _image(image: JsonObject) -> JsonObject:
    """An image with its bytes, where the bubble has them, else what is known of it."""
    data = get_text(image, "data") or get_text(image, "url")
    if data and data.startswith(("data:", "http")):
        return build_media_url_block(data, "image") | {
            key: image[key] for key in image if key not in ("data", "url", "type")
        }
    return {"type": "image", **{key: value for key, value in image.items() if key != "type"}}


def _is_in(block: JsonObject, text: str) -> bool:
    content = block.get("content")
    return not isinstance(content, str) or not content or content in text


def _code(block: JsonObject) -> JsonObject:
    return {"type": "code", "text": block["content"], **pick_fields(block, "languageId", "uri")}
