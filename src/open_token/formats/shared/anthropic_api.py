"""Messages of the Anthropic API as events, and the merging of its streams."""

from typing import Any

from open_token.formats.shared.anthropic_blocks import (
    CALL_TYPES,
    THINKING_TYPES,
    add_block,
    get_block_type,
    parse_content,
    parse_output,
)
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    drop_nulls,
    get_dict,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_writer import MessageWriter, join_comparison_keys
from open_token.model.document import Role

_ANNOTATION_TYPES = ("compaction", "fallback")
_DELTA_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}


def _list_blocks(content: Any) -> list[Any]:
    """Return the blocks of a content, which may be a plain text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _get_text(block: Any) -> str | None:
    text = block.get("text") if get_block_type(block) == "text" else None
    return text if isinstance(text, str) else None


class BlockWriter:
    """Adds the blocks of one message, in order; consecutive blocks of text become one event."""

    def __init__(self, writer: MessageWriter, role: Role) -> None:
        self._writer = writer
        self._role = role
        self._pending: list[Any] = []

    def add_content(self, content: Any) -> None:
        """Add the content of the message."""
        count = self._writer.draft.count
        for block in _list_blocks(content):
            kind = get_block_type(block) or ""
            if _is_action(kind):
                self._flush()
                self._add_action(block, kind)
            else:
                self._pending.append(block)
        self._flush()
        if self._writer.draft.count == count:
            self._writer.add_message("", self._role)

    def _add_action(self, block: JsonObject, kind: str) -> None:
        """Add a block that is an event of its own."""
        if kind in THINKING_TYPES:
            self._writer.add_reasoning(as_text(block.get("thinking")))
        elif kind in CALL_TYPES:
            self._add_call(block, kind)
        elif kind in _ANNOTATION_TYPES:
            add_block(self._writer.draft, block, self._writer.actor, ts=self._writer.ts)
        else:
            self._add_result(block)

    def _add_call(self, block: JsonObject, kind: str) -> None:
        arguments = block.get("input")
        extra = pick_fields(block, "server_name", "caller")
        if kind != "tool_use":
            extra["native_type"] = kind
        self._writer.add_tool_call(
            as_text(block.get("id")),
            as_text(block.get("name")) or "tool",
            {} if arguments is None else arguments,
            extra,
        )

    def _add_result(self, block: JsonObject) -> None:
        output = block.get("content")
        output_type = get_block_type(output) or ""
        is_error = block.get("is_error") is True or output_type.endswith("_error")
        self._writer.add_tool_result(
            as_text(block.get("tool_use_id")),
            parse_output(output),
            facts={"is_error": True} if is_error else None,
        )

    def _flush(self) -> None:
        blocks = self._pending
        self._pending = []
        if not blocks:
            return
        texts = [_get_text(block) for block in blocks]
        has_citations = any(isinstance(block, dict) and block.get("citations") for block in blocks)
        if has_citations and None not in texts:
            # One answer, which the API splits where its sources change.
            self._writer.add_message("".join(text for text in texts if text), self._role)
            self._writer.add_annotation("message_facts", citations=_list_citations(blocks))
        else:
            self._writer.add_message(parse_content(blocks), self._role)


def _is_action(kind: str) -> bool:
    if kind in THINKING_TYPES or kind in CALL_TYPES or kind in _ANNOTATION_TYPES:
        return True
    return kind.endswith("tool_result")


def _list_citations(blocks: list[JsonObject]) -> list[JsonObject]:
    """Return the sources of a text in several blocks, each with the range that it supports."""
    citations: list[JsonObject] = []
    start = 0
    for block in blocks:
        end = start + len(block["text"])
        cited = block.get("citations")
        for citation in cited if isinstance(cited, list) else ():
            citations.append({"start": start, "end": end, "citation": citation})
        start = end
    return citations


def build_comparison_keys(message: Any) -> list[Any]:
    """Return what identifies a message when the next request repeats it."""
    if not isinstance(message, dict):
        return [["odd", message]]
    parts: list[tuple[str, Any]] = []
    for block in _list_blocks(message.get("content")):
        kind = get_block_type(block)
        if kind in THINKING_TYPES:
            continue
        text = _get_text(block)
        if text is not None:
            parts.append(("text", text))
        elif kind in CALL_TYPES:
            parts.append(("call", [block.get("name"), block.get("input")]))
        elif kind is not None and kind.endswith("tool_result"):
            parts.append(("result", _normalize_output(block.get("content"))))
        else:
            parts.append(("block", kind))
    return join_comparison_keys(str(message.get("role", "assistant")), parts)


def _normalize_output(content: Any) -> Any:
    """Return an output as it is compared: a text equals a list with only that text."""
    values = []
    for block in _list_blocks(content):
        text = _get_text(block)
        values.append(block if text is None else text)
    return values or content


class StreamMerger:
    """Merges the events of a message stream: blocks by index, deltas appended."""

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._blocks: dict[Any, JsonObject] = {}

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add an event; return the previous response if the event begins another."""
        kind = chunk.get("type")
        if kind == "message_start":
            finished = self.end()
            message = chunk.get("message")
            self._body = dict(message) if isinstance(message, dict) else {}
            return finished
        if kind == "content_block_start" and isinstance(chunk.get("content_block"), dict):
            self._blocks[self._get_index(chunk)] = dict(chunk["content_block"])
        elif kind == "content_block_delta" and isinstance(chunk.get("delta"), dict):
            block = self._blocks.setdefault(self._get_index(chunk), {"type": "text"})
            _merge_delta(block, chunk["delta"])
        elif kind == "message_delta":
            self._merge_message_delta(chunk)
        elif kind == "error" and isinstance(chunk.get("error"), dict):
            self._body = {**(self._body or {}), "error": chunk["error"]}
        return None

    def _get_index(self, chunk: JsonObject) -> Any:
        index = chunk.get("index")
        return index if isinstance(index, int) else len(self._blocks)

    def _merge_message_delta(self, chunk: JsonObject) -> None:
        if self._body is None:
            self._body = {}
        body = self._body
        if isinstance(chunk.get("delta"), dict):
            body |= chunk["delta"]
        # message_start counts the input, message_delta the output: one completes the other.
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            body["usage"] = get_dict(body, "usage") | drop_nulls(usage)
        body |= pick_fields(chunk, "context_management")

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        body = self._body
        blocks = list(self._blocks.values())
        self._body = None
        self._blocks = {}
        if body is None and not blocks:
            return None
        for block in blocks:
            # The arguments of a call arrive as pieces of JSON text; one without any sends none.
            if "partial_json" in block:
                text = block.pop("partial_json")
                block["input"] = parse_arguments(text) if text else block.get("input")
        response: JsonObject = {"type": "message", "role": "assistant", "stop_reason": None}
        response |= body or {}
        response["content"] = blocks or response.get("content", [])
        return response


def _merge_delta(block: JsonObject, delta: JsonObject) -> None:
    """Add a piece to its block: a citation to the list of them, any other to a text."""
    kind = get_block_type(delta) or ""
    if kind == "citations_delta" and "citation" in delta:
        known = block.get("citations")
        citations = known if isinstance(known, list) else []
        block["citations"] = [*citations, delta["citation"]]
        return
    if kind == "input_json_delta":
        name = "partial_json"
    elif kind in _DELTA_FIELDS:
        name = _DELTA_FIELDS[kind]
    else:
        return
    piece = delta.get(name)
    if isinstance(piece, str):
        block[name] = str(block.get(name) or "") + piece
