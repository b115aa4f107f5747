"""Convert the parts of OpenCode messages: content blocks, tool outputs, token counts."""

from typing import Any

from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage

_MAX_FACT_LENGTH = 200
_REDUNDANT_METADATA = ("output", "preview", "description", "diff", "error")
"""Metadata of a result that repeats its output or its arguments, or that is bulky."""
_SUBSESSION_KEYS = ("sessionId", "sessionID")
_SPAN_METADATA = (*_SUBSESSION_KEYS, "model")
"""Metadata of a call that started a session, which the span of that session holds."""


def parse_time(value: Any, key: str) -> str | None:
    """Return a timestamp of the `time` object, which counts milliseconds."""
    return from_epoch(get_dict(value, "time").get(key), 0.001)


def build_file_block(part: JsonObject) -> JsonObject:
    """Return a block with the bytes of an attached file, or else with its address."""
    mime = get_text(part, "mime")
    kind = "image" if mime and mime.startswith("image/") else "file"
    block = build_media_url_block(get_text(part, "url") or "", kind)
    if mime:
        block.setdefault("media_type", mime)
    return block | pick_fields(part, "filename", "source")


def build_content_block(part: JsonObject) -> JsonObject | None:
    """Return a part as a content block of a message; None for parts of other kinds."""
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("text")}
    if kind == "file":
        return build_file_block(part)
    if kind == "agent":
        return {"type": "agent", **pick_fields(part, "name", "source")}
    return None


def get_tool_output(state: JsonObject) -> Any:
    """Return the output of a tool as the model saw it; None for a call that is not finished."""
    status = state.get("status")
    output = state.get("output")
    if status == "error" or (status != "completed" and "error" in state):
        output = _get_error_output(state)
    elif status != "completed" and "output" not in state:
        return None
    files = []
    # Tools that read images return them as attachments.
    attachments = state.get("attachments")
    if type(attachments) is list:
        files = [build_file_block(file) for file in attachments if type(file) is dict]
    if files:
        return [{"type": "text", "text": output}, *files]
    return "" if output is None else output


def _get_error_output(state: JsonObject) -> Any:
    # The model sees the partial output of an interrupted tool instead of the error.
    metadata = get_dict(state, "metadata")
    if metadata.get("interrupted") is True and isinstance(metadata.get("output"), str):
        return metadata["output"]
    return state.get("error", "")


def get_tool_facts(state: JsonObject) -> tuple[JsonObject, bool]:
    """Return small facts about a tool result, and whether larger metadata was left out."""
    facts: JsonObject = {}
    metadata = get_dict(state, "metadata")
    if state.get("status") == "error":
        facts["is_error"] = True
        if metadata.get("interrupted") is True:
            facts["error"] = state.get("error")
    title = get_text(state, "title")
    if title:
        facts["title"] = title[:_MAX_FACT_LENGTH]
    time = get_dict(state, "time")
    start = time.get("start")
    end = time.get("end")
    if isinstance(start, int | float) and isinstance(end, int | float) and end >= start:
        facts["duration_ms"] = end - start
    # Old outputs are removed from the context, not from the session.
    if time.get("compacted"):
        facts["cleared_from_context"] = True
    has_bulk = False
    for key, value in metadata.items():
        if key in _SPAN_METADATA or value is None:
            continue
        if _is_small_fact(key, value):
            facts.setdefault(key, value)
        elif value:
            has_bulk = True
    return facts, has_bulk


def _is_small_fact(key: str, value: Any) -> bool:
    if isinstance(value, bool | int | float):
        return True
    if not isinstance(value, str) or key in _REDUNDANT_METADATA:
        return False
    return len(value) <= _MAX_FACT_LENGTH


def get_subsession_id(state: JsonObject) -> str | None:
    """Return the id of the session that a call started."""
    metadata = get_dict(state, "metadata")
    for key in _SUBSESSION_KEYS:
        session_id = get_text(metadata, key)
        if session_id:
            return session_id
    return None


def parse_usage(tokens: Any, provider: str | None) -> Usage | None:
    """Return token counts in which the input includes cached tokens, the output reasoning."""
    if type(tokens) is not dict:
        return None
    cache = get_dict(tokens, "cache")
    uncached = _parse_count(tokens, "input")
    output = _parse_count(tokens, "output")
    reasoning = _parse_count(tokens, "reasoning")
    cache_read = _parse_count(cache, "read")
    cache_write = _parse_count(cache, "write")
    usage: Usage = {}
    if uncached is not None or cache_read or cache_write:
        usage["input_tokens"] = (uncached or 0) + (cache_read or 0) + (cache_write or 0)
    if output is not None:
        usage["output_tokens"] = output
        input_tokens = usage.get("input_tokens", 0)
        if _excludes_reasoning(tokens, input_tokens, output, reasoning or 0, provider):
            usage["output_tokens"] += reasoning or 0
    if reasoning is not None:
        usage["reasoning_tokens"] = reasoning
    if cache_read is not None:
        usage["cache_read_tokens"] = cache_read
    if cache_write is not None:
        usage["cache_write_tokens"] = cache_write
    return usage if any(usage.values()) else None


def _excludes_reasoning(
    tokens: JsonObject, input_tokens: int, output: int, reasoning: int, provider: str | None
) -> bool:
    """Return whether the output count leaves reasoning tokens out.

    The total shows it. Versions without a total store the numbers of the provider, and only Google
    counts reasoning separately.
    """
    total = _parse_count(tokens, "total")
    if total:
        return total >= input_tokens + output + reasoning
    return reasoning > output or (provider or "").startswith("google")


def _parse_count(counts: JsonObject, key: str) -> int | None:
    value = counts.get(key)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None
