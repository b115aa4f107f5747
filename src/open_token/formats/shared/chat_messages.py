"""Messages of the OpenAI chat completions API, also as compatible servers send them."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_writer import (
    CallMatcher,
    MessageWriter,
    join_comparison_keys,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_TEXT_FIELDS = ("content", "refusal", *_REASONING_FIELDS)


def parse_usage(value: Any) -> Usage | None:
    """Return token counts; the sums include cached and reasoning tokens."""
    if not isinstance(value, dict):
        return None
    prompt = value.get("prompt_tokens")
    output = value.get("completion_tokens")
    reasoning = _get_detail(value, "completion_tokens_details", "reasoning_tokens")
    if type(reasoning) is type(prompt) is type(output) is int and reasoning > 0:
        # Gemini and Grok behind this API leave reasoning out of completion_tokens; their total
        # includes it.
        if value.get("total_tokens") == prompt + output + reasoning:
            output += reasoning
    return build_usage(
        input_tokens=prompt,
        output_tokens=output,
        reasoning_tokens=reasoning,
        cache_read_tokens=_get_detail(value, "prompt_tokens_details", "cached_tokens"),
        cache_write_tokens=_get_detail(value, "prompt_tokens_details", "cache_write_tokens"),
    )


def _get_detail(value: JsonObject, name: str, detail: str) -> Any:
    details = value.get(name)
    return details.get(detail) if isinstance(details, dict) else None


def parse_content(draft: Draft, value: Any, place: str) -> str | list[Any] | None:
    """Return a single text as it is, anything else as a list of blocks; None if it is empty."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        return [value]
    if len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
        text = value[0].get("text")
        if isinstance(text, str):
            return text
    return [_parse_part(draft, part, place) for part in value] or None


def _parse_part(draft: Draft, part: Any, place: str) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal":
        return {"type": "refusal", "refusal": part.get("refusal")}
    block: JsonObject | None = None
    if isinstance(kind, str):
        # Every other kind has its content in a field of the same name.
        block = _parse_media(kind, part.get(kind))
    if block is None:
        draft.note_omission("unknown-part", place, f"part {format_kind(kind)}, kept as it is")
        return part
    return block


def _parse_media(kind: str, value: Any) -> JsonObject | None:
    if kind in ("image_url", "audio_url", "video_url"):
        # Some clients send the URL itself instead of an object with it.
        reference = value if isinstance(value, dict) else {"url": value}
        if isinstance(reference.get("url"), str):
            block = build_media_url_block(reference["url"], kind.removesuffix("_url"))
            return block | pick_fields(reference, "detail")
    if not isinstance(value, dict):
        return None
    if kind == "input_audio" and isinstance(value.get("data"), str):
        audio_format = as_text(value.get("format"))
        media_type = f"audio/{audio_format}" if audio_format else None
        return build_media_block(media_type, value["data"], "audio")
    if kind == "file":
        data = value.get("file_data")
        file: JsonObject = {"type": "file"}
        if isinstance(data, str):
            file = build_media_url_block(data, "file")
        return file | pick_fields(value, "filename", "file_id")
    return None


def add_assistant_message(writer: MessageWriter, message: JsonObject) -> None:
    """Add reasoning, then text, then calls: the order in which a model makes them."""
    count = writer.draft.count
    _add_reasoning(writer, message)
    answer = _drop_thinking_parts(message.get("content"))
    content = parse_content(writer.draft, answer, writer.place)
    if content:
        writer.add_message(content)
        citations = message.get("annotations") or message.get("citations")
        if citations:
            writer.add_annotation("message_facts", citations=citations)
    refusal = as_text(message.get("refusal"))
    if refusal:
        writer.add_message(refusal)
        writer.add_annotation("message_facts", refusal=True)
    if isinstance(message.get("audio"), dict):
        writer.add_message([_parse_audio(message["audio"])])
    for call in as_dicts(message.get("tool_calls")):
        _add_call(writer, call)
    # The form of 2023, before parallel calls: one call, without an id.
    function_call = message.get("function_call")
    if isinstance(function_call, dict):
        _add_function(writer, None, function_call)
    # Nothing was added: a null content says nothing, an empty text is what the model answered.
    if writer.draft.count == count:
        if content is None:
            writer.draft.note_omission("empty-message", writer.place, "a message without content")
        else:
            writer.add_message("")


def _parse_audio(audio: JsonObject) -> JsonObject:
    data = audio.get("data")
    block: JsonObject = {"type": "audio"}
    if isinstance(data, str):
        block = build_media_block(None, data, "audio")
    return block | pick_fields(audio, "id", "transcript")


def _add_call(writer: MessageWriter, call: JsonObject) -> None:
    custom = call.get("custom")
    function = call.get("function")
    native_id = as_text(call.get("id"))
    if isinstance(custom, dict):
        tool = as_text(custom.get("name")) or "tool"
        writer.add_tool_call(native_id, tool, {"input": custom.get("input")})
    elif isinstance(function, dict):
        _add_function(writer, native_id, function)
    else:
        detail = f"tool call {format_kind(call.get('type'))}"
        writer.draft.note_omission("unknown-call", writer.place, detail)


def _add_function(writer: MessageWriter, native_id: str | None, function: JsonObject) -> None:
    tool = as_text(function.get("name")) or "tool"
    writer.add_tool_call(native_id, tool, parse_arguments(function.get("arguments")))


def _add_reasoning(writer: MessageWriter, message: JsonObject) -> None:
    for thinking in _list_thinking_parts(message.get("content")):
        writer.add_reasoning(thinking)
    for name in _REASONING_FIELDS:
        plain = as_text(message.get(name))
        if plain is not None:
            # The details repeat this text.
            writer.add_reasoning(plain)
            return
    for detail in as_dicts(message.get("reasoning_details")):
        text = as_text(detail.get("text"))
        summary = as_text(detail.get("summary"))
        if text or summary:
            writer.add_reasoning(text or summary, summary=not text)
        elif as_text(detail.get("data")):
            # Encrypted: all that is known is that the model reasoned.
            writer.add_reasoning(None)


def _is_thinking_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "thinking"


def _drop_thinking_parts(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [part for part in content if not _is_thinking_part(part)]


def _list_thinking_parts(content: Any) -> Iterator[str]:
    """Yield the reasoning in a content: Mistral sends it as parts among the others."""
    for part in as_dicts(content):
        if not _is_thinking_part(part):
            continue
        thinking = part.get("thinking")
        text = as_text(thinking) or ""
        for piece in as_dicts(thinking):
            text += as_text(piece.get("text")) or ""
        if text:
            yield text


def add_tool_message(draft: Draft, calls: CallMatcher, message: JsonObject, place: str) -> None:
    """Add a message with the role tool, or with the older role function."""
    tool = as_text(message.get("name"))
    if "content" not in message:
        draft.note_omission("no-content", place, "a result without content")
    output = parse_content(draft, message.get("content"), place)
    key = calls.find_key(as_text(message.get("tool_call_id")), tool)
    draft.add_tool_result(key, "" if output is None else output, tool=tool)


def build_comparison_keys(message: Any) -> list[Any]:
    """Return what identifies a message when the next request repeats it."""
    if not isinstance(message, dict):
        return [["odd", message]]
    role = str(message.get("role", "assistant"))
    content = message.get("content")
    parts: list[tuple[str, Any]] = []
    if isinstance(content, str):
        parts.append(("text", content))
    # Clients mostly leave reasoning out when they send a message back.
    for part in as_dicts(_drop_thinking_parts(content)):
        text = part.get("text")
        if part.get("type") == "text" and isinstance(text, str):
            parts.append(("text", text))
        else:
            parts.append(("part", part))
    if role in ("tool", "function"):
        return [["result", join_comparison_keys(role, parts)]]
    refusal = as_text(message.get("refusal"))
    if refusal:
        parts.append(("text", refusal))
    for call in as_dicts(message.get("tool_calls")):
        parts.append(("call", _build_call_key(call.get("custom") or call.get("function"))))
    if isinstance(message.get("function_call"), dict):
        parts.append(("call", _build_call_key(message["function_call"])))
    return join_comparison_keys(role, parts)


def _build_call_key(call: Any) -> list[Any]:
    if not isinstance(call, dict):
        return []
    return [call.get("name"), parse_arguments(call.get("arguments", call.get("input")))]


class ChunkMerger:
    """Merges `chat.completion.chunk` objects: choices and tool calls by index, texts appended."""

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._is_finished = False

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add a chunk; return the previous response if the chunk begins another."""
        finished = self.end() if self._begins_response(chunk) else None
        if self._body is None:
            self._body = {"choices": []}
        body = self._body
        for name, value in chunk.items():
            # A later chunk may repeat a name with an empty value.
            if name != "choices" and (value or name not in body):
                body[name] = value
        body["object"] = "chat.completion"
        for choice in as_dicts(chunk.get("choices")):
            _merge_choice(body["choices"], choice)
            if choice.get("finish_reason"):
                self._is_finished = True
        return finished

    def _begins_response(self, chunk: JsonObject) -> bool:
        if self._body is None:
            return False
        old_id = self._body.get("id")
        new_id = chunk.get("id")
        if old_id and new_id:
            return bool(old_id != new_id)
        if not self._is_finished:
            return False
        # Without ids, a role after the end of a response begins another.
        deltas = [choice.get("delta") for choice in as_dicts(chunk.get("choices"))]
        return any(isinstance(delta, dict) and delta.get("role") for delta in deltas)

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        body = self._body
        self._body = None
        self._is_finished = False
        return body


def _merge_choice(choices: list[Any], part: JsonObject) -> None:
    index = part.get("index")
    if not isinstance(index, int):
        index = 0
    for choice in choices:
        if choice["index"] == index:
            break
    else:
        message = {"role": "assistant", "content": None}
        choice = {"index": index, "message": message, "finish_reason": None}
        choices.append(choice)
    if part.get("finish_reason"):
        choice["finish_reason"] = part["finish_reason"]
    delta = part.get("delta", part.get("message"))
    if isinstance(delta, dict):
        _merge_delta(choice["message"], delta)


def _merge_delta(message: JsonObject, delta: JsonObject) -> None:
    for name, value in delta.items():
        known = message.get(name)
        is_text = name in _TEXT_FIELDS and isinstance(value, str)
        if is_text and isinstance(known, str | None):
            message[name] = (known or "") + value
        elif name == "tool_calls":
            calls = message["tool_calls"] = as_dicts(known)
            for call in as_dicts(value):
                _merge_call(calls, call)
        elif name == "function_call" and isinstance(value, dict):
            message[name] = _merge_function(known, value)
        elif isinstance(value, list) and isinstance(known, list):
            message[name] = known + value
        elif value is not None:
            message[name] = value


def _merge_call(calls: list[JsonObject], part: JsonObject) -> None:
    index = part.get("index")
    if not isinstance(index, int):
        # Some servers send whole calls without an index.
        index = len(calls)
    for call in calls:
        if call["index"] == index and _is_same_call(call, part):
            break
    else:
        call = {"index": index}
        calls.append(call)
    for name, value in part.items():
        if name in ("function", "custom") and isinstance(value, dict):
            call[name] = _merge_function(call.get(name), value)
        elif value and name != "index":
            call[name] = value


def _is_same_call(known: JsonObject, part: JsonObject) -> bool:
    """Return whether a chunk with the same index continues a call.

    Gemini behind this API gives every call the index 0; another id is another call.
    """
    return not part.get("id") or not known.get("id") or known["id"] == part["id"]


def _merge_function(known: Any, part: JsonObject) -> JsonObject:
    function = dict(known) if isinstance(known, dict) else {}
    for name, value in part.items():
        if name in ("arguments", "input") and isinstance(value, str):
            function[name] = str(function.get(name) or "") + value
        elif value is not None:
            function[name] = value
    return function
