"""Read requests and responses of Pydantic AI, part by part."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_first,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_writer import CallMatcher
from open_token.formats.shared.messages import parse_media
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

_USUAL_FINISH_REASONS = (None, "stop", "tool_call")
_TEXT_CONTENTS = ("text", "text-content", "structured-content")
_MEDIA_CONTENTS = ("image-url", "audio-url", "video-url", "document-url", "binary")


def read(source: Source, draft: Draft) -> None:
    """Read the messages into the draft."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    reader = _MessageReader(draft)
    for place, message in _list_messages(source):
        reader.read(message, place)


def _list_messages(source: Source) -> Iterator[tuple[str, Any]]:
    """Yield every message with its position, also out of lists and objects that hold one."""
    unit = "line" if source.shape == "lines" else "message"
    for number, record in source.records():
        place = f"{unit} {number}"
        messages = record
        if isinstance(record, dict):
            messages = None if "kind" in record else record.get("messages")
        if not isinstance(messages, list):
            yield place, record
            continue
        for position, message in enumerate(messages, 1):
            yield f"{place}, message {position}", message


@dataclass(slots=True)
class _Message:
    """A request or response being read."""

    place: str
    ts: str | None
    actor: str = ""
    """The model of a response; empty for a request."""
    usage: Usage | None = None
    event: Event | None = None
    citations: list[Any] = field(default_factory=list)

    def take_usage(self) -> Usage | None:
        usage = self.usage
        self.usage = None
        return usage

    def get_time(self, part: JsonObject) -> str | None:
        return to_utc(part.get("timestamp")) or self.ts


class _MessageReader:
    """Reads messages and adds them to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._calls = CallMatcher(draft)
        self._instructions: str | None = None
        """The latest instructions, which every request repeats."""

    def read(self, body: Any, place: str) -> None:
        kind = body.get("kind") if isinstance(body, dict) else None
        parts = body.get("parts") if isinstance(body, dict) else None
        if kind not in ("request", "response") or not isinstance(parts, list):
            self._draft.note_omission(
                "unknown-record", place, f"a record {format_kind(kind)} that is no message"
            )
            return
        conversation_id = as_text(body.get("conversation_id"))
        if conversation_id:
            self._draft.conversation.setdefault("id", conversation_id)
        message = _Message(place, to_utc(body.get("timestamp")))
        if kind == "request":
            self._read_instructions(body, message)
        else:
            self._read_model(body, message)
            self._read_failed_attempts(body, message)
        for part in parts:
            self._read_part(part, message)
        if kind == "response":
            self._finish_response(body, message)

    def _read_part(self, part: Any, message: _Message) -> None:
        kind = part.get("part_kind") if isinstance(part, dict) else None
        read_kind = _READERS.get(kind) if isinstance(kind, str) else None
        if read_kind is not None:
            read_kind(self, part, message)
            return
        name = format_kind(kind.replace("-", "_") if isinstance(kind, str) else None)
        self._draft.note_omission("unknown-part", message.place, f"part {name}, preserved verbatim")
        self._draft.add_annotation({"kind": "custom", "name": kind, "value": part}, ts=message.ts)

    def _read_instructions(self, body: JsonObject, message: _Message) -> None:
        instructions = as_text(body.get("instructions"))
        if not instructions or instructions == self._instructions:
            return
        self._instructions = instructions
        self._add_system_message(instructions, message.ts)

    def _add_system_message(self, content: str | list[Any], ts: str | None) -> None:
        actor = self._draft.get_actor("system", "system")
        self._draft.add_message("system", content, actor, ts=ts)

    def _read_model(self, body: JsonObject, message: _Message) -> None:
        model = as_text(body.get("model_name"))
        provider = identify_provider(model, as_text(body.get("provider_name")))
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        message.actor = self._draft.get_actor("model", "assistant", provider=provider, model=model)
        message.usage = _read_usage(body.get("usage"))
        if message.usage and message.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"

    def _read_failed_attempts(self, body: JsonObject, message: _Message) -> None:
        """Add the attempts of other models that failed before this one answered."""
        attempts = body.get("failed_attempts")
        for attempt in attempts if isinstance(attempts, list) else ():
            model = as_text(attempt.get("model_name")) if isinstance(attempt, dict) else None
            if not model:
                self._draft.note_omission(
                    "unknown-part", message.place, "a failed attempt without its model"
                )
                continue
            provider = identify_provider(model, as_text(attempt.get("provider_name")))
            self._draft.add_annotation(
                {"kind": "model_fallback", **pick_fields(attempt, "outcome", "error", "duration")},
                actor=self._draft.get_actor("model", "assistant", provider=provider, model=model),
                ts=to_utc(attempt.get("timestamp")),
                usage=_read_usage(attempt.get("usage")),
            )

    def _get_model_actor(self, message: _Message) -> str:
        """Return the model, also for its parts in a request."""
        return message.actor or self._draft.get_actor("model", "assistant")

    def _finish_response(self, body: JsonObject, message: _Message) -> None:
        if message.usage and any(message.usage.values()):
            self._draft.add_annotation(
                {"kind": "usage"},
                actor=message.actor,
                ts=message.ts,
                usage=message.take_usage(),
            )
        facts: JsonObject = pick_fields(body, "metadata")
        if message.citations:
            facts["citations"] = message.citations
        if body.get("finish_reason") not in _USUAL_FINISH_REASONS:
            facts["finish_reason"] = body["finish_reason"]
        if body.get("state") not in (None, "complete"):
            facts["state"] = body["state"]
        if facts:
            self._draft.add_annotation(
                {"kind": "message_facts", **facts},
                parent=message.event,
                actor=message.actor,
                ts=message.ts,
            )

    def _read_system_prompt(self, part: JsonObject, message: _Message) -> None:
        content = self._read_content(part.get("content"), message)
        self._add_system_message(content, message.get_time(part))

    def _read_user_prompt(self, part: JsonObject, message: _Message) -> None:
        content = self._read_content(part.get("content"), message)
        actor = self._draft.get_actor("human", "user")
        self._draft.add_message("user", content, actor, ts=message.get_time(part))

    def _read_content(self, value: Any, message: _Message) -> str | list[Any]:
        """Return a single text as a string, anything else as blocks."""
        if isinstance(value, str):
            return value
        blocks: list[Any] = []
        for item in value if isinstance(value, list) else [value]:
            block = self._read_block(item, message)
            if block is not None:
                blocks.append(block)
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
            text = blocks[0]["text"]
            if isinstance(text, str):
                return text
        return blocks or ""

    def _read_block(self, item: Any, message: _Message) -> Any:
        if isinstance(item, str):
            return {"type": "text", "text": item}
        kind = item.get("kind") if isinstance(item, dict) else None
        if kind in _TEXT_CONTENTS:
            return {"type": "text", "text": item.get("content")}
        if kind == "cache-point":
            return None
        if kind == "uploaded-file":
            return {"type": "file", **pick_fields(item, "file_id", "provider_name", "media_type")}
        block = _read_media(item)
        if block is not None:
            return block
        self._draft.note_omission(
            "unknown-part", message.place, f"content {format_kind(kind)}, preserved verbatim"
        )
        return {"type": "unknown", "value": item}

    def _read_tool_return(self, part: JsonObject, message: _Message) -> None:
        facts: JsonObject = pick_fields(part, "metadata")
        outcome = part.get("outcome")
        if outcome not in (None, "success"):
            facts["outcome"] = outcome
            if outcome in ("failed", "retried"):
                facts["is_error"] = True
        facts |= pick_fields(part, "retry")
        tool = as_text(part.get("tool_name"))
        # In a response, the provider ran the tool: the result belongs to the latest call.
        is_builtin = message.actor != ""
        key = self._calls.find_key(as_text(part.get("tool_call_id")), tool, latest=is_builtin)
        self._draft.add_tool_result(
            key,
            _read_output(part.get("content")),
            ts=message.get_time(part),
            tool=tool,
            facts=facts or None,
        )

    def _read_retry_prompt(self, part: JsonObject, message: _Message) -> None:
        """Read a request to try again; before 2.0 it is also the result of a failed call."""
        tool = as_text(part.get("tool_name"))
        content = part.get("content")
        ts = message.get_time(part)
        if tool is None:
            if not isinstance(content, str | list):
                content = [content]
            actor = self._draft.get_actor("system", "runtime")
            self._draft.add_message("user", content, actor, ts=ts, visibility="internal")
            return
        self._draft.add_tool_result(
            self._calls.find_key(as_text(part.get("tool_call_id")), tool),
            "" if content is None else content,
            ts=ts,
            tool=tool,
            facts={"is_error": True, "retry": True},
        )

    def _read_text(self, part: JsonObject, message: _Message) -> None:
        text = part.get("content")
        if text:
            self._add_answer(text if isinstance(text, str) else [text], message)
            message.citations += as_dicts(part.get("citations"))

    def _add_answer(self, content: str | list[Any], message: _Message) -> None:
        message.event = self._draft.add_message(
            "assistant",
            content,
            self._get_model_actor(message),
            ts=message.ts,
            usage=message.take_usage(),
        )

    def _read_speech(self, part: JsonObject, message: _Message) -> None:
        """Read what was spoken in a live session: its transcript, its audio, or both."""
        items = [item for item in (part.get("transcript"), part.get("audio")) if item]
        content = self._read_content(items, message)
        if part.get("speaker") == "user":
            actor = self._draft.get_actor("human", "user")
            message.event = self._draft.add_message("user", content, actor, ts=message.ts)
        else:
            self._add_answer(content, message)
        facts = pick_fields(part, "interrupted_at_ms")
        if facts:
            self._draft.add_annotation(
                {"kind": "message_facts", **facts}, parent=message.event, ts=message.ts
            )

    def _read_thinking(self, part: JsonObject, message: _Message) -> None:
        text = as_text(part.get("content"))
        if text or part.get("signature"):
            self._draft.add_reasoning(text, self._get_model_actor(message), ts=message.ts)
        else:
            self._draft.note_omission("empty-reasoning", message.place, "reasoning without text")

    def _read_tool_call(self, part: JsonObject, message: _Message) -> None:
        native_id = as_text(part.get("tool_call_id"))
        tool = as_text(part.get("tool_name")) or "tool"
        kind = part["part_kind"]
        before = self._draft.count
        key = self._draft.add_tool_call(
            native_id,
            tool,
            parse_arguments(part.get("args")),
            self._get_model_actor(message),
            ts=message.ts,
            usage=message.usage,
            group=message.place,
            extra={"native_type": kind} if kind != "tool-call" else None,
        )
        if self._draft.count > before:
            message.usage = None
            self._calls.add_call(key, native_id, tool)

    def _read_file(self, part: JsonObject, message: _Message) -> None:
        self._add_answer([self._read_block(part.get("content"), message)], message)

    def _read_compaction(self, part: JsonObject, message: _Message) -> None:
        """Read a compaction by the provider; OpenAI's is encrypted."""
        data: JsonObject = {
            "kind": "compaction",
            **pick_fields({"summary": part.get("content")}, "summary"),
        }
        if "summary" not in data:
            data["encrypted"] = True
        self._draft.add_annotation(data, actor=self._get_model_actor(message), ts=message.ts)

    def _read_baseline(self, part: JsonObject, message: _Message) -> None:
        """Read the parts of the instructions, unless the request has them as a whole."""
        blocks = part.get("instructions")
        for block in blocks if isinstance(blocks, list) else ():
            kind = block.get("part_kind") if isinstance(block, dict) else None
            if kind != "instruction":
                self._read_part(block, message)
                continue
            text = as_text(block.get("content"))
            if text and text not in (self._instructions or ""):
                self._read_system_prompt(block, message)

    def _skip_digest(self, part: JsonObject, message: _Message) -> None:
        """Skip the hash of an instruction, which the request holds."""

    def _read_instruction_delta(self, part: JsonObject, message: _Message) -> None:
        """Read instructions that are replaced, or withdrawn, during the conversation."""
        if as_text(part.get("content")):
            self._read_system_prompt(part, message)
        else:
            self._read_settings_delta(part, message)

    def _read_settings_delta(self, part: JsonObject, message: _Message) -> None:
        """Read tools, capabilities or settings that change during the conversation."""
        settings = {
            name: value for name, value in part.items() if name != "part_kind" and value is not None
        }
        self._draft.add_annotation(
            {"kind": "settings", "native_type": part["part_kind"], **settings}, ts=message.ts
        )


# `builtin-...` parts are called `native-...` in later versions.
_READERS: dict[str, Callable[[_MessageReader, JsonObject, _Message], None]] = {
    "system-prompt": _MessageReader._read_system_prompt,
    "instruction": _MessageReader._read_system_prompt,
    "user-prompt": _MessageReader._read_user_prompt,
    "tool-return": _MessageReader._read_tool_return,
    "builtin-tool-return": _MessageReader._read_tool_return,
    "native-tool-return": _MessageReader._read_tool_return,
    "retry-prompt": _MessageReader._read_retry_prompt,
    "retry-feedback": _MessageReader._read_retry_prompt,
    "text": _MessageReader._read_text,
    "speech": _MessageReader._read_speech,
    "thinking": _MessageReader._read_thinking,
    "tool-call": _MessageReader._read_tool_call,
    "builtin-tool-call": _MessageReader._read_tool_call,
    "native-tool-call": _MessageReader._read_tool_call,
    "file": _MessageReader._read_file,
    "compaction": _MessageReader._read_compaction,
    "instruction-baseline": _MessageReader._read_baseline,
    "instruction-digest": _MessageReader._skip_digest,
    "instruction-delta": _MessageReader._read_instruction_delta,
    "tool-availability-delta": _MessageReader._read_settings_delta,
    "capability-load-delta": _MessageReader._read_settings_delta,
    "model-settings-delta": _MessageReader._read_settings_delta,
}


def _read_media(item: Any) -> JsonObject | None:
    """Return an image, audio, video or document as a block; None for anything else."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind not in _MEDIA_CONTENTS:
        return None
    if kind != "binary":
        return parse_media({**pick_fields(item, "url", "media_type"), "type": kind}, kind)
    data = item.get("data")
    if not isinstance(data, str):
        return None
    media_kind = str(item.get("media_type")).partition("/")[0]
    if media_kind not in ("image", "audio", "video"):
        media_kind = "document"
    return parse_media(
        {**pick_fields(item, "media_type"), "type": media_kind, "data": data}, media_kind
    )


def _read_output(value: Any) -> Any:
    """Return what a tool returned, with files in it as blocks."""
    if value is None:
        return ""
    if isinstance(value, list):
        return [_read_media(item) or item for item in value]
    block = _read_media(value)
    return value if block is None else [block]


def _read_usage(value: Any) -> Usage | None:
    """Return the counts of one request; before 1.0 they had other names."""
    if not isinstance(value, dict):
        return None
    details = value.get("details")
    if not isinstance(details, dict):
        details = {}
    input_tokens = get_first(value, "input_tokens", "request_tokens")
    output_tokens = get_first(value, "output_tokens", "response_tokens")
    reasoning_tokens = get_first(details, "reasoning_tokens", "thoughts_tokens")
    if reasoning_tokens is None:
        # Since 2.0 there is a field for it, in which 0 can also mean that nobody counted.
        reasoning_tokens = value.get("output_reasoning_tokens") or None
    are_integers = type(reasoning_tokens) is type(input_tokens) is type(output_tokens) is int
    if are_integers:
        total = input_tokens + output_tokens + reasoning_tokens
        if value.get("total_tokens") == total:
            # Gemini before 1.0: reasoning is not part of the output, only of the total.
            output_tokens += reasoning_tokens
    return build_usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=reasoning_tokens,
        cache_read_tokens=value.get("cache_read_tokens"),
        cache_write_tokens=value.get("cache_write_tokens"),
    )
