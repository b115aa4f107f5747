"""Tells requests and responses of Pydantic AI, part by part."""

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
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

_USUAL_ENDS = ("stop", "tool_call")
_MEDIA = ("image-url", "audio-url", "video-url", "document-url", "binary")


def read(source: Source, draft: Draft) -> None:
    """Tell the messages in order."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    telling = _Messages(draft)
    for place, message in _placed(source):
        telling.take(message, place)


def _placed(source: Source) -> Iterator[tuple[str, Any]]:
    unit = "line" if source.shape == "lines" else "message"
    for number, record in source.records():
        if isinstance(record, dict) and "kind" in record:
            yield f"{unit} {number}", record
            continue
        held = record.get("messages") if isinstance(record, dict) else record
        if not isinstance(held, list):
            yield f"{unit} {number}", record
            continue
        yield from (
            (f"{unit} {number}, message {place}", message) for place, message in enumerate(held, 1)
        )


@dataclass(slots=True)
class _Message:
    """One request or response on its way."""

    place: str
    ts: str | None
    actor: str = ""
    usage: Usage | None = None
    event: Event | None = None
    citations: list[Any] = field(default_factory=list)

    def spent(self) -> Usage | None:
        spent, self.usage = self.usage, None
        return spent


class _Messages:
    """Tells one message after another; remembers the instructions, which every request repeats."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._calls = CallMatcher(draft)
        self._instructions: str | None = None

    def take(self, message: Any, place: str) -> None:
        kind = message.get("kind") if isinstance(message, dict) else None
        parts = message.get("parts") if isinstance(message, dict) else None
        if kind not in ("request", "response") or not isinstance(parts, list):
            self._draft.note_omission(
                "unknown-record", place, f"a record {format_kind(kind)} that is no message"
            )
            return
        if known := as_text(message.get("conversation_id")):
            self._draft.conversation.setdefault("id", known)
        made = _Message(place, to_utc(message.get("timestamp")))
        if kind == "request":
            self._instruct(message, made)
        else:
            self._speaker(message, made)
            self._attempts(message, made)
        for part in parts:
            self._part(part, made)
        if kind == "response":
            self._close(message, made)

    def _part(self, part: Any, made: _Message) -> None:
        kind = part.get("part_kind") if isinstance(part, dict) else None
        tell = _PARTS.get(kind) if isinstance(kind, str) else None
        if tell is not None:
            tell(self, part, made)
            return
        name = format_kind(kind.replace("-", "_")) if isinstance(kind, str) else format_kind(None)
        self._draft.note_omission("unknown-part", made.place, f"part {name}, kept as it is")
        self._draft.add_annotation({"kind": "custom", "name": kind, "value": part}, ts=made.ts)

    def _instruct(self, message: JsonObject, made: _Message) -> None:
        given = as_text(message.get("instructions"))
        if given and given != self._instructions:
            self._instructions = given
            self._draft.add_message(
                "system", given, self._draft.get_actor("system", "system"), ts=made.ts
            )

    def _speaker(self, message: JsonObject, made: _Message) -> None:
        model = as_text(message.get("model_name"))
        provider = identify_provider(model, as_text(message.get("provider_name")))
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        made.actor = self._draft.get_actor("model", "assistant", provider=provider, model=model)
        made.usage = usage_of(message.get("usage"))
        if made.usage and made.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"

    def _attempts(self, message: JsonObject, made: _Message) -> None:
        """What other models failed at before this one answered."""
        tried = message.get("failed_attempts")
        for attempt in tried if isinstance(tried, list) else ():
            if not isinstance(attempt, dict) or not as_text(attempt.get("model_name")):
                self._draft.note_omission(
                    "unknown-part", made.place, "a failed attempt without its model"
                )
                continue
            data: JsonObject = {
                "kind": "model_fallback",
                **pick_fields(attempt, "outcome", "error", "duration"),
            }
            model, ts = as_text(attempt.get("model_name")), to_utc(attempt.get("timestamp"))
            provider = identify_provider(model, as_text(attempt.get("provider_name")))
            actor = self._draft.get_actor("model", "assistant", provider=provider, model=model)
            self._draft.add_annotation(
                data, actor=actor, ts=ts, usage=usage_of(attempt.get("usage"))
            )

    def _who(self, made: _Message) -> str:
        """Who says what only a model says, also where it stands in a request."""
        return made.actor or self._draft.get_actor("model", "assistant")

    def _close(self, message: JsonObject, made: _Message) -> None:
        if made.usage and any(made.usage.values()):
            self._draft.add_annotation(
                {"kind": "usage"}, actor=made.actor, ts=made.ts, usage=made.spent()
            )
        facts: JsonObject = pick_fields(message, "metadata")
        if made.citations:
            facts["citations"] = made.citations
        if message.get("finish_reason") not in (None, *_USUAL_ENDS):
            facts["finish_reason"] = message["finish_reason"]
        if message.get("state") not in (None, "complete"):
            facts["state"] = message["state"]
        if facts:
            data = {"kind": "message_facts", **facts}
            self._draft.add_annotation(data, parent=made.event, actor=made.actor, ts=made.ts)

    def system(self, part: JsonObject, made: _Message) -> None:
        words = self._content(part.get("content"), made)
        self._draft.add_message(
            "system", words, self._draft.get_actor("system", "system"), ts=_time(part, made)
        )

    def user(self, part: JsonObject, made: _Message) -> None:
        words = self._content(part.get("content"), made)
        self._draft.add_message(
            "user", words, self._draft.get_actor("human", "user"), ts=_time(part, made)
        )

    def _content(self, value: Any, made: _Message) -> str | list[Any]:
        if isinstance(value, str):
            return value
        blocks = [
            self._block(item, made) for item in (value if isinstance(value, list) else [value])
        ]
        blocks = [block for block in blocks if block is not None]
        if (
            len(blocks) == 1
            and blocks[0].keys() == {"type", "text"}
            and isinstance(blocks[0]["text"], str)
        ):
            return blocks[0]["text"]
        return blocks or ""

    def _block(self, item: Any, made: _Message) -> Any:
        if isinstance(item, str):
            return {"type": "text", "text": item}
        kind = item.get("kind") if isinstance(item, dict) else None
        if kind in ("text", "text-content", "structured-content"):
            return {"type": "text", "text": item.get("content")}
        if kind == "cache-point":
            return None
        if kind == "uploaded-file":
            return {"type": "file", **pick_fields(item, "file_id", "provider_name", "media_type")}
        if (block := file_of(item)) is not None:
            return block
        self._draft.note_omission(
            "unknown-part", made.place, f"content {format_kind(kind)}, kept as it is"
        )
        return {"type": "unknown", "value": item}

    def result(self, part: JsonObject, made: _Message) -> None:
        facts: JsonObject = pick_fields(part, "metadata")
        outcome = part.get("outcome")
        if outcome not in (None, "success"):
            facts |= {"outcome": outcome} | (
                {"is_error": True} if outcome in ("failed", "retried") else {}
            )
        facts |= pick_fields(part, "retry")
        tool = as_text(part.get("tool_name"))
        key = self._calls.find_key(as_text(part.get("tool_call_id")), tool, latest=made.actor != "")
        output = _output(part.get("content"))
        self._draft.add_tool_result(
            key, output, ts=_time(part, made), tool=tool, facts=facts or None
        )

    def retry(self, part: JsonObject, made: _Message) -> None:
        """The runtime asks the model to try again: before 2.0 also the result of a failed call."""
        tool, content = as_text(part.get("tool_name")), part.get("content")
        ts = _time(part, made)
        if tool is None:
            words = (
                content
                if isinstance(content, str)
                else content
                if isinstance(content, list)
                else [content]
            )
            actor = self._draft.get_actor("system", "runtime")
            self._draft.add_message("user", words, actor, ts=ts, visibility="internal")
            return
        key = self._calls.find_key(as_text(part.get("tool_call_id")), tool)
        output = "" if content is None else content
        self._draft.add_tool_result(
            key, output, ts=ts, tool=tool, facts={"is_error": True, "retry": True}
        )

    def text(self, part: JsonObject, made: _Message) -> None:
        if words := part.get("content"):
            said = words if isinstance(words, str) else [words]
            made.event = self._draft.add_message(
                "assistant", said, self._who(made), ts=made.ts, usage=made.spent()
            )
            made.citations += as_dicts(part.get("citations"))

    def speech(self, part: JsonObject, made: _Message) -> None:
        """What was spoken in a live session: its transcript, its sound, or both."""
        heard = [item for item in (part.get("transcript"), part.get("audio")) if item]
        words, facts = self._content(heard, made), pick_fields(part, "interrupted_at_ms")
        if part.get("speaker") == "user":
            event = self._draft.add_message(
                "user", words, self._draft.get_actor("human", "user"), ts=made.ts
            )
        else:
            event = self._draft.add_message(
                "assistant", words, self._who(made), ts=made.ts, usage=made.spent()
            )
        if facts:
            self._draft.add_annotation({"kind": "message_facts", **facts}, parent=event, ts=made.ts)
        made.event = event

    def thinking(self, part: JsonObject, made: _Message) -> None:
        words = as_text(part.get("content"))
        if words or part.get("signature"):
            self._draft.add_reasoning(words, self._who(made), ts=made.ts)
        else:
            self._draft.note_omission("empty-reasoning", made.place, "reasoning without words")

    def call(self, part: JsonObject, made: _Message) -> None:
        native, tool = as_text(part.get("tool_call_id")), as_text(part.get("tool_name")) or "tool"
        kind = part["part_kind"]
        extra = {"native_type": kind} if kind != "tool-call" else None
        before = self._draft.count
        key = self._draft.add_tool_call(
            native,
            tool,
            parse_arguments(part.get("args")),
            self._who(made),
            ts=made.ts,
            usage=made.usage,
            group=made.place,
            extra=extra,
        )
        if self._draft.count > before:
            made.usage = None
            self._calls.add_call(key, native, tool)

    def file(self, part: JsonObject, made: _Message) -> None:
        block = self._block(part.get("content"), made)
        made.event = self._draft.add_message(
            "assistant", [block], self._who(made), ts=made.ts, usage=made.spent()
        )

    def compaction(self, part: JsonObject, made: _Message) -> None:
        data: JsonObject = {
            "kind": "compaction",
            **pick_fields({"summary": part.get("content")}, "summary"),
        }
        if "summary" not in data:
            data["encrypted"] = True
        self._draft.add_annotation(data, actor=self._who(made), ts=made.ts)

    def baseline(self, part: JsonObject, made: _Message) -> None:
        """What the instructions were made of: they stand in the request already, as a rule."""
        listed = part.get("instructions")
        for block in listed if isinstance(listed, list) else ():
            kind = block.get("part_kind") if isinstance(block, dict) else None
            if kind != "instruction":
                self._part(block, made)
            elif (words := as_text(block.get("content"))) and words not in (
                self._instructions or ""
            ):
                self.system(block, made)

    def digest(self, part: JsonObject, made: _Message) -> None:
        """The hash of an instruction that stands in the request: nothing to tell."""

    def changed(self, part: JsonObject, made: _Message) -> None:
        """Instructions that are replaced within the talk, or withdrawn."""
        if as_text(part.get("content")):
            self.system(part, made)
        else:
            self.setting(part, made)

    def setting(self, part: JsonObject, made: _Message) -> None:
        """Tools, capabilities or settings that change within the talk."""
        known = {
            name: value for name, value in part.items() if name != "part_kind" and value is not None
        }
        self._draft.add_annotation(
            {"kind": "settings", "native_type": part["part_kind"], **known}, ts=made.ts
        )


_PARTS: dict[str, Callable[[_Messages, JsonObject, _Message], None]] = {
    "system-prompt": _Messages.system,
    "instruction": _Messages.system,
    "user-prompt": _Messages.user,
    "tool-return": _Messages.result,
    "builtin-tool-return": _Messages.result,
    "native-tool-return": _Messages.result,
    "retry-prompt": _Messages.retry,
    "retry-feedback": _Messages.retry,
    "text": _Messages.text,
    "speech": _Messages.speech,
    "thinking": _Messages.thinking,
    "tool-call": _Messages.call,
    "builtin-tool-call": _Messages.call,
    "native-tool-call": _Messages.call,
    "file": _Messages.file,
    "compaction": _Messages.compaction,
    "instruction-baseline": _Messages.baseline,
    "instruction-digest": _Messages.digest,
    "instruction-delta": _Messages.changed,
    "tool-availability-delta": _Messages.setting,
    "capability-load-delta": _Messages.setting,
    "model-settings-delta": _Messages.setting,
}


def _time(part: JsonObject, made: _Message) -> str | None:
    return to_utc(part.get("timestamp")) or made.ts


def file_of(item: Any) -> JsonObject | None:
    """A picture, a sound or a document: bytes, or where they are."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind not in _MEDIA:
        return None
    if kind != "binary":
        return parse_media({**pick_fields(item, "url", "media_type"), "type": kind}, kind)
    family = str(item.get("media_type")).partition("/")[0]
    sort = family if family in ("image", "audio", "video") else "document"
    data = get_first(item, "data")
    return (
        parse_media({**pick_fields(item, "media_type"), "type": sort, "data": data}, sort)
        if isinstance(data, str)
        else None
    )


def _output(value: Any) -> Any:
    """What a tool gave back; a file among it is unpacked."""
    if value is None:
        return ""
    if isinstance(value, list):
        return [file_of(item) or item for item in value]
    made = file_of(value)
    return value if made is None else [made]


def usage_of(value: Any) -> Usage | None:
    """The counts of one request; before 1.0 they had other names."""
    if not isinstance(value, dict):
        return None
    details = value.get("details")
    held = details if isinstance(details, dict) else {}
    given, output = (
        get_first(value, "input_tokens", "request_tokens"),
        get_first(value, "output_tokens", "response_tokens"),
    )
    # Since 2.0 the count has a place of its own, where 0 also means that nobody counted.
    thought = get_first(held, "reasoning_tokens", "thoughts_tokens")
    thought = thought if thought is not None else value.get("output_reasoning_tokens") or None
    if (
        type(thought) is type(given) is type(output) is int
        and value.get("total_tokens") == given + output + thought
    ):
        output += (
            thought  # Gemini before 1.0: thoughts stand beside the answer, the total has both.
        )
    return build_usage(
        input_tokens=given,
        output_tokens=output,
        reasoning_tokens=thought,
        cache_read_tokens=get_first(value, "cache_read_tokens"),
        cache_write_tokens=get_first(value, "cache_write_tokens"),
    )
