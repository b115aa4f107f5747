"""Content blocks of the Converse API: an object whose one field says what it is."""

from typing import Any

from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    drop_nulls,
    get_dict,
    get_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_writer import MessageWriter, join_comparison_keys
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block
from open_token.model.document import Role, Usage

_SILENT_EVENTS = ("messageStart", "contentBlockStop", "timestamp")
_MARKERS = ("cachePoint",)
_MEDIA = {"image": "image", "video": "video", "audio": "audio", "document": "file"}
_MEDIA_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}


def parse_usage(value: Any) -> Usage | None:
    """Return token counts; Bedrock counts cached input apart, an export includes it."""
    if not isinstance(value, dict):
        return None
    read = value.get("cacheReadInputTokens")
    written = value.get("cacheWriteInputTokens")
    fresh = value.get("inputTokens")
    counts = []
    for count in (fresh, read, written):
        if type(count) is int and count >= 0:
            counts.append(count)
    return build_usage(
        input_tokens=sum(counts) if counts else None,
        output_tokens=value.get("outputTokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def list_blocks(content: Any) -> list[Any]:
    """Return the blocks of a content."""
    if isinstance(content, list):
        return content
    return [] if content is None else [content]


def get_kind(block: Any) -> str | None:
    """Return the field of a block that says what it is: its only one.

    SDKs may write the fields of all other kinds as null.
    """
    if not isinstance(block, dict):
        return None
    for name, value in block.items():
        if value is not None:
            return str(name)
    return None


class BlockWriter:
    """Adds the blocks of one message, in order; consecutive blocks of text become one event."""

    def __init__(self, writer: MessageWriter, role: Role) -> None:
        self._writer = writer
        self._role = role
        self._pending: list[Any] = []
        self._citations: list[Any] = []

    def add_content(self, content: Any) -> None:
        """Add the content of the message."""
        count = self._writer.draft.count
        for block in list_blocks(content):
            self._add_block(block)
        self._flush()
        if self._writer.draft.count == count:
            self._writer.add_message("", self._role)

    def _add_block(self, block: Any) -> None:
        kind = get_kind(block)
        value = block.get(kind) if kind else None
        if kind == "reasoningContent" and isinstance(value, dict):
            self._flush()
            self._add_reasoning(value)
        elif kind == "toolUse" and isinstance(value, dict):
            self._flush()
            self._add_call(value)
        elif kind == "toolResult" and isinstance(value, dict):
            self._flush()
            self._add_result(value)
        elif kind == "citationsContent" and isinstance(value, dict):
            # The text goes on as any other; its sources are annotated once the message is complete.
            for part in list_blocks(value.get("content")):
                self._pending.append(self._parse(part))
            self._citations += list_blocks(value.get("citations"))
        elif kind not in _MARKERS:
            self._pending.append(self._parse(block))

    def _parse(self, block: Any) -> Any:
        return parse_block(self._writer, block)

    def _add_reasoning(self, value: JsonObject) -> None:
        text = get_text(get_dict(value, "reasoningText"), "text")
        if text or value.get("redactedContent"):
            self._writer.add_reasoning(text)
        elif value.get("reasoningText") is None:
            self._pending.append(self._parse({"reasoningContent": value}))

    def _add_call(self, value: JsonObject) -> None:
        kind = as_text(value.get("type"))
        extra: JsonObject | None = None
        if kind and kind != "tool_use":
            # A tool that Bedrock itself runs.
            extra = {"native_type": kind}
        self._writer.add_tool_call(
            as_text(value.get("toolUseId")),
            as_text(value.get("name")) or "tool",
            parse_arguments(value.get("input")),
            extra,
        )

    def _add_result(self, value: JsonObject) -> None:
        output = []
        for part in list_blocks(value.get("content")):
            output.append(_parse_output(self._writer, part))
        result: Any = output
        if len(output) == 1 and isinstance(output[0], dict):
            # A single text stands for itself, and so does a JSON object.
            single = output[0]
            if single.keys() == {"type", "text"}:
                result = single["text"]
            elif "type" not in single:
                result = single
        facts: JsonObject | None = None
        if value.get("status") == "error":
            facts = {"is_error": True}
        self._writer.add_tool_result(as_text(value.get("toolUseId")), result, facts=facts)

    def _flush(self) -> None:
        blocks = self._pending
        citations = self._citations
        self._pending = []
        self._citations = []
        text = _get_plain_text(blocks[0]) if len(blocks) == 1 else None
        if text is not None:
            self._writer.add_message(text, self._role)
        elif blocks:
            self._writer.add_message(blocks, self._role)
        if citations:
            self._writer.add_annotation("message_facts", citations=citations)


def _get_plain_text(block: Any) -> str | None:
    if isinstance(block, dict) and block.keys() == {"type", "text"}:
        return as_text(block["text"])
    return None


def _parse_output(writer: MessageWriter, part: Any) -> Any:
    """Return a part of a result; its JSON stands as it is."""
    if get_kind(part) == "json":
        return part["json"]
    return parse_block(writer, part)


def parse_block(writer: MessageWriter, block: Any) -> Any:
    """Return a block of text or media; one of an unknown kind is kept as it is, with a note."""
    kind = get_kind(block)
    value = block.get(kind) if kind else None
    if kind == "text" and isinstance(value, str):
        return {"type": "text", "text": value}
    if kind == "guardContent" and isinstance(value, dict):
        # What a guardrail has to look at: a text or an image in a wrapping.
        text = get_text(get_dict(value, "text"), "text")
        if text:
            return {"type": "text", "text": text}
        return parse_block(writer, value)
    if kind in _MEDIA and isinstance(value, dict):
        return _parse_media(kind, value)
    if kind == "searchResult" and isinstance(value, dict):
        return {"type": "search_result", **value}
    writer.draft.note_omission(
        "unknown-part", writer.place, f"part {format_kind(kind)}, kept as it is"
    )
    return block


def _parse_media(kind: str, value: JsonObject) -> JsonObject:
    name = as_text(value.get("format"))
    media_type = _MEDIA_TYPES.get(name or "")
    if name and media_type is None and kind != "document":
        media_type = name if "/" in name else f"{kind}/{name}"
    source = get_dict(value, "source")
    rest = dict(source)
    data = rest.pop("bytes", None)
    # Python's SDK has bytes here, which recordings write as base64, plain or in an object.
    if isinstance(data, dict) and isinstance(data.get("base64"), str):
        data = data["base64"]
    if isinstance(data, str):
        block = build_media_block(media_type, data, _MEDIA[kind])
    else:
        block = drop_nulls({"type": _MEDIA[kind], "media_type": media_type, "bytes": data})
    location = get_text(get_dict(rest, "s3Location"), "uri")
    if location:
        del rest["s3Location"]
        block["url"] = location
    filename = value.get("name")
    if filename is not None:
        block["filename"] = filename
    if name and not media_type:
        # A format without a known media type is kept as it was named.
        block["format"] = name
    others = {key: field for key, field in value.items() if key not in ("source", "format", "name")}
    return block | drop_nulls(rest | others)


def build_comparison_keys(message: Any) -> list[Any]:
    """Return what identifies a message when the next request repeats it."""
    if not isinstance(message, dict):
        return [["odd", message]]
    parts: list[tuple[str, Any]] = []
    for block in list_blocks(message.get("content")):
        kind = get_kind(block)
        value = block.get(kind) if kind else block
        if kind in _MARKERS or kind == "reasoningContent":
            continue
        if kind == "text" and isinstance(value, str):
            # Clients send reasoning back as a text to models that do not take it as such.
            if not (value.startswith("<think>") and value.endswith("</think>")):
                parts.append(("text", value))
        elif kind == "citationsContent" and isinstance(value, dict):
            texts = [as_text(part.get("text")) for part in as_dicts(value.get("content"))]
            parts.append(("text", "".join(filter(None, texts))))
        elif kind == "toolUse" and isinstance(value, dict):
            parts.append(("call", [value.get("name"), value.get("input")]))
        elif kind == "toolResult" and isinstance(value, dict):
            parts.append(("result", value.get("content")))
        else:
            parts.append(("block", kind))
    return join_comparison_keys(str(message.get("role", "assistant")), parts)


class StreamMerger:
    """Merges the events of ConverseStream: blocks by index, deltas appended."""

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._blocks: dict[int, JsonObject] = {}
        self._unknown: list[JsonObject] = []
        """Events of a kind that is not known: they stand behind the blocks."""

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add an event; return the previous response if the event begins another."""
        finished = self.end() if "messageStart" in chunk else None
        body = self._body
        if body is None:
            body = self._body = {"stopReason": None}
        body |= pick_fields(chunk, "timestamp")
        for name, value in chunk.items():
            if name in _SILENT_EVENTS:
                continue
            if not isinstance(value, dict):
                self._unknown.append({name: value})
            elif name == "contentBlockStart":
                self._start_block(value)
            elif name == "contentBlockDelta":
                self._add_delta(value)
            elif name in ("messageStop", "metadata"):
                body |= drop_nulls(value)
            elif name.endswith("Exception"):
                body["error"] = {"code": name, **value}
            else:
                self._unknown.append({name: value})
        return finished

    def _get_block(self, event: JsonObject) -> JsonObject:
        index = event.get("contentBlockIndex")
        if not isinstance(index, int):
            index = max(self._blocks, default=0)
        return self._blocks.setdefault(index, {})

    def _start_block(self, event: JsonObject) -> None:
        block = self._get_block(event)
        for name, value in get_dict(event, "start").items():
            block[name] = dict(value) if isinstance(value, dict) else value

    def _add_delta(self, event: JsonObject) -> None:
        block = self._get_block(event)
        for name, value in get_dict(event, "delta").items():
            if name == "text" and isinstance(value, str):
                block["text"] = str(block.get("text") or "") + value
            elif name == "toolUse" and isinstance(value, dict):
                call = block.setdefault("toolUse", {})
                call["input"] = str(call.get("input") or "") + str(value.get("input") or "")
            elif name == "reasoningContent" and isinstance(value, dict):
                _merge_reasoning(block, value)
            elif name == "toolResult" and isinstance(value, list):
                result = block.setdefault("toolResult", {})
                result["content"] = [*list_blocks(result.get("content")), *value]
            elif name == "citation":
                block["citations"] = [*list_blocks(block.get("citations")), value]
            else:
                block.setdefault("unknown", []).append({name: value})

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        body = self._body
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        unknown = self._unknown
        self._body = None
        self._blocks = {}
        self._unknown = []
        if body is None:
            return None
        content = [part for block in blocks for part in _finish_block(block)] + unknown
        body["output"] = {"message": {"role": "assistant", "content": content}}
        return body


def _merge_reasoning(block: JsonObject, delta: JsonObject) -> None:
    reasoning = block.setdefault("reasoningContent", {})
    text = delta.get("text")
    if isinstance(text, str):
        known = reasoning.setdefault("reasoningText", {})
        known["text"] = str(known.get("text") or "") + text
    elif isinstance(delta.get("redactedContent"), str):
        known_data = str(reasoning.get("redactedContent") or "")
        reasoning["redactedContent"] = known_data + delta["redactedContent"]
    elif "signature" not in delta:
        block.setdefault("unknown", []).append({"reasoningContent": delta})


def _finish_block(block: JsonObject) -> list[JsonObject]:
    """Return a merged block as a response has it, and what was not understood of it."""
    unknown = block.pop("unknown", [])
    citations = block.pop("citations", None)
    if citations and "text" in block:
        content = {"content": [{"text": block["text"]}], "citations": citations}
        return [{"citationsContent": content}, *unknown]
    call = block.get("toolUse")
    if isinstance(call, dict):
        call["input"] = parse_arguments(call.get("input") or None)
    return [*({name: value} for name, value in block.items()), *unknown]
