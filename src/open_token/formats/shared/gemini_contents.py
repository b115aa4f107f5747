"""Contents and parts of the Gemini API as events, and the merging of its partial responses."""

from functools import cache
from typing import Any

from open_token.formats.shared.fields import JsonObject, as_text, pick_fields
from open_token.formats.shared.message_writer import MessageWriter, join_comparison_keys
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block
from open_token.model.document import Role, Usage

UNMERGED = "\0odd"
"""The field of a merged response that holds the pieces which could not be merged."""

_CODE_TOOL = "code_execution"
_CONTENTLESS_FIELDS = (
    "finishReason",
    "groundingMetadata",
    "citationMetadata",
    "safetyRatings",
    "urlContextMetadata",
)
"""What a candidate may hold without a content, as in the last piece of a stream."""
_INVISIBLE_FIELDS = ("thought", "thoughtSignature", "thought_signature")


def get_either_case(value: Any, name: str) -> Any:
    """Return a field that is spelled as on the wire (camelCase) or in libraries (snake_case)."""
    if not isinstance(value, dict):
        return None
    field = value.get(name)
    return value.get(_to_snake_case(name)) if field is None else field


@cache
def _to_snake_case(name: str) -> str:
    letters = []
    for letter in name:
        letters.append(f"_{letter.lower()}" if letter.isupper() else letter)
    return "".join(letters)


def parse_usage(value: Any) -> Usage | None:
    """Return token counts.

    The API counts reasoning apart from the answer, and what its tools read apart from the prompt.
    """
    if not isinstance(value, dict):
        return None
    return build_usage(
        input_tokens=_sum_counts(value, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=_sum_counts(value, "candidatesTokenCount", "thoughtsTokenCount"),
        reasoning_tokens=get_either_case(value, "thoughtsTokenCount"),
        cache_read_tokens=get_either_case(value, "cachedContentTokenCount"),
    )


def _sum_counts(value: JsonObject, *names: str) -> int | None:
    fields = [get_either_case(value, name) for name in names]
    counts = [count for count in fields if type(count) is int]
    return sum(counts) if counts else None


def list_parts(content: Any) -> list[JsonObject]:
    """Return the parts of a content, which the libraries allow to be a plain text."""
    if isinstance(content, str):
        return [{"text": content}]
    parts = content.get("parts") if isinstance(content, dict) else content
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list):
        return []
    parts = [{"text": part} if isinstance(part, str) else part for part in parts]
    return [part for part in parts if isinstance(part, dict)]


def build_content(content: Any) -> str | list[Any]:
    """Return a content as that of a message: a single text, or a list of blocks."""
    return _join_parts(list_parts(content))


def add_content(writer: MessageWriter, content: Any, role: Role) -> None:
    """Add the parts in order; consecutive parts of text and media become one event."""
    count = writer.draft.count
    pending: list[JsonObject] = []
    for part in list_parts(content):
        if part.get("thought") is not True and _get_action(part) is None:
            pending.append(part)
            continue
        _add_message(writer, pending, role)
        pending = []
        _add_action(writer, part)
    _add_message(writer, pending, role)
    if writer.draft.count == count:
        writer.add_message("", role)


def _is_reasoning(part: JsonObject) -> bool:
    return part.get("thought") is True and _get_action(part) is None


def _get_action(part: JsonObject) -> str | None:
    """Return the name of the call or result that a part holds."""
    if _ACTION_FIELDS.isdisjoint(part):
        return None
    return next((name for name in _ACTIONS if isinstance(get_either_case(part, name), dict)), None)


def _add_message(writer: MessageWriter, parts: list[JsonObject], role: Role) -> None:
    visible = [part for part in parts if _is_visible(part)]
    if visible:
        writer.add_message(_join_parts(visible), role)


def _is_visible(part: JsonObject) -> bool:
    """Return whether a part says anything: a signature often comes with an empty text."""
    return any(value for name, value in part.items() if name not in _INVISIBLE_FIELDS)


def _join_parts(parts: list[JsonObject]) -> str | list[Any]:
    if len(parts) == 1:
        text = parts[0].get("text")
        if isinstance(text, str):
            return text
    return [_build_block(part) for part in parts]


def _build_block(part: JsonObject) -> Any:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    data = get_either_case(part, "inlineData")
    if isinstance(data, dict) and isinstance(data.get("data"), str):
        media_type = as_text(get_either_case(data, "mimeType"))
        block = build_media_block(media_type, data["data"], _get_media_kind(media_type))
        return block | _get_display_name(data)
    file = get_either_case(part, "fileData")
    if isinstance(file, dict):
        media_type = as_text(get_either_case(file, "mimeType"))
        block = {"type": _get_media_kind(media_type), "url": get_either_case(file, "fileUri")}
        if media_type:
            block["media_type"] = media_type
        return block | _get_display_name(file)
    return part


def _get_media_kind(media_type: str | None) -> str:
    kind = (media_type or "").partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "file"


def _get_display_name(data: JsonObject) -> JsonObject:
    name = as_text(get_either_case(data, "displayName"))
    return {"name": name} if name else {}


def _add_action(writer: MessageWriter, part: JsonObject) -> None:
    """Add reasoning, a call or a result."""
    action = _get_action(part)
    if action is not None:
        _ACTIONS[action](writer, get_either_case(part, action))
    else:
        text = as_text(part.get("text"))
        writer.add_reasoning(text, summary=text is not None)


def _add_function_call(writer: MessageWriter, call: JsonObject) -> None:
    arguments = call.get("args")
    writer.add_tool_call(
        as_text(call.get("id")),
        as_text(call.get("name")) or "tool",
        {} if arguments is None else arguments,
    )


def _add_function_response(writer: MessageWriter, response: JsonObject) -> None:
    output = response.get("response")
    media_parts = list_parts(response.get("parts"))
    if media_parts:
        output = [output, *(_build_block(part) for part in media_parts)]
    writer.add_tool_result(
        as_text(response.get("id")),
        "" if output is None else output,
        as_text(response.get("name")),
    )


def _add_executable_code(writer: MessageWriter, code: JsonObject) -> None:
    arguments = pick_fields(code, "language", "code")
    writer.add_tool_call(as_text(code.get("id")), _CODE_TOOL, arguments)


def _add_code_result(writer: MessageWriter, result: JsonObject) -> None:
    outcome = result.get("outcome")
    facts = {"outcome": outcome} if outcome not in (None, "OUTCOME_OK") else None
    output = result.get("output")
    writer.add_tool_result(
        as_text(result.get("id")),
        "" if output is None else output,
        _CODE_TOOL,
        facts,
        latest=True,
    )


def _add_server_tool_call(writer: MessageWriter, call: JsonObject) -> None:
    arguments = call.get("args")
    writer.add_tool_call(
        as_text(call.get("id")),
        as_text(get_either_case(call, "toolType")) or "tool",
        {} if arguments is None else arguments,
        {"native_type": "toolCall"},
    )


def _add_server_tool_response(writer: MessageWriter, response: JsonObject) -> None:
    output = response.get("response")
    writer.add_tool_result(
        as_text(response.get("id")),
        "" if output is None else output,
        as_text(get_either_case(response, "toolType")),
    )


_ACTIONS = {
    "functionCall": _add_function_call,
    "functionResponse": _add_function_response,
    "executableCode": _add_executable_code,
    "codeExecutionResult": _add_code_result,
    "toolCall": _add_server_tool_call,
    "toolResponse": _add_server_tool_response,
}
_ACTION_FIELDS = frozenset((*_ACTIONS, *map(_to_snake_case, _ACTIONS)))


def build_comparison_keys(content: Any) -> list[Any]:
    """Return what identifies a content when the next request repeats it."""
    role = content.get("role") if isinstance(content, dict) else None
    parts: list[tuple[str, Any]] = []
    for part in list_parts(content):
        if _is_reasoning(part):
            continue
        action = _get_action(part)
        if action is not None:
            parts.append((action, _normalize_action(get_either_case(part, action))))
        elif isinstance(part.get("text"), str):
            parts.append(("text", part["text"]))
        else:
            parts.append(("part", sorted(part)))
    return join_comparison_keys("model" if role == "model" else "user", parts)


def _normalize_action(action: JsonObject) -> JsonObject:
    return {
        name: value for name, value in action.items() if name != "id" and value not in ({}, None)
    }


def is_unrecognized(candidate: JsonObject) -> bool:
    """Return whether a candidate holds nothing known, or a content that is not made of parts."""
    content = candidate.get("content")
    if list_parts(content):
        return False
    has_other_fields = any(get_either_case(candidate, name) for name in _CONTENTLESS_FIELDS)
    if "content" not in candidate and not has_other_fields:
        return True
    if not content:
        return False
    return not (isinstance(content, dict) and content.keys() <= {"role", "parts"})


class ChunkMerger:
    """Merges partial responses: candidates by index, texts of one kind appended."""

    def __init__(self) -> None:
        self._body: JsonObject | None = None

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add a partial response; return the previous response if this one begins another."""
        finished = self.end() if self._begins_response(chunk) else None
        if self._body is None:
            self._body = {}
        body = self._body
        for name, value in chunk.items():
            if name != "candidates":
                body[name] = value
        known = body.setdefault("candidates", [])
        candidates = chunk.get("candidates")
        if not isinstance(candidates, list):
            candidates = [] if candidates is None else [candidates]
        for candidate in candidates:
            if not isinstance(candidate, dict) or is_unrecognized(candidate):
                body.setdefault(UNMERGED, []).append(candidate)
            if isinstance(candidate, dict):
                _merge_candidate(known, candidate)
        return finished

    def _begins_response(self, chunk: JsonObject) -> bool:
        old_id = get_either_case(self._body, "responseId")
        new_id = get_either_case(chunk, "responseId")
        return bool(old_id and new_id and old_id != new_id)

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        body = self._body
        self._body = None
        return body


def _merge_candidate(known: list[JsonObject], part: JsonObject) -> None:
    index = part.get("index") or 0
    candidate = next((item for item in known if (item.get("index") or 0) == index), None)
    if candidate is None:
        candidate = {"content": {"role": "model", "parts": []}}
        known.append(candidate)
    for name, value in part.items():
        if name == "content":
            for piece in list_parts(value):
                _merge_part(candidate["content"]["parts"], piece)
        elif value is not None:
            candidate[name] = value


def _merge_part(known: list[JsonObject], piece: JsonObject) -> None:
    """Add a piece of a stream: to the text before it, unless one is a thought and one is not."""
    last = known[-1] if known else {}
    are_texts = isinstance(last.get("text"), str) and isinstance(piece.get("text"), str)
    are_same_kind = (last.get("thought") is True) == (piece.get("thought") is True)
    if are_texts and are_same_kind:
        known[-1] = {**last, **piece, "text": last["text"] + piece["text"]}
    else:
        known.append(dict(piece))
