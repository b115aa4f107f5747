"""The parts of OpenCode messages in the export's terms: blocks, outputs with the facts beside them,
token counts."""

from typing import Any

from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage

_SHORT = 200
_TWICE = ("output", "preview", "description", "diff", "error")
"""Side data that stands in the output or the arguments already, or is bulk."""
_CHILD = ("sessionId", "sessionID")
_TOLD = (*_CHILD, "model")
"""Side data of a call that started a session; its span tells it."""


def time_of(value: Any, key: str) -> str | None:
    """A moment in a `time` object, which counts milliseconds."""
    return from_epoch(get_dict(value, "time").get(key), 0.001)


def file_block(part: JsonObject) -> JsonObject:
    """A file that was attached: its bytes where it has them, else where it lies."""
    mime = get_text(part, "mime")
    kind = "image" if mime and mime.startswith("image/") else "file"
    block = build_media_url_block(get_text(part, "url") or "", kind)
    if mime:
        block.setdefault("media_type", mime)
    return block | pick_fields(part, "filename", "source")


def said_block(part: JsonObject) -> JsonObject | None:
    """A part as a block of what someone said; None for what is no such part."""
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("text")}
    if kind == "file":
        return file_block(part)
    if kind == "agent":
        return {"type": "agent", **pick_fields(part, "name", "source")}
    return None


def output_of(state: JsonObject) -> Any:
    """What a tool gave back, as the model saw it; None when it gave nothing back yet."""
    status, output = state.get("status"), state.get("output")
    if status == "error" or (status != "completed" and "error" in state):
        metadata = get_dict(state, "metadata")
        output = metadata.get("output") if metadata.get("interrupted") is True else None
        output = output if isinstance(output, str) else state.get("error", "")
    elif status != "completed" and "output" not in state:
        return None
    attached = state.get("attachments")
    files = (
        [file_block(file) for file in attached if type(file) is dict]
        if type(attached) is list
        else []
    )
    if files:
        return [{"type": "text", "text": output}, *files]
    return "" if output is None else output


def facts_of(state: JsonObject) -> tuple[JsonObject, bool]:
    """Small facts beside an output, and whether there was bulk that is left out."""
    facts: JsonObject = {}
    if state.get("status") == "error":
        facts["is_error"] = True
        if get_dict(state, "metadata").get("interrupted") is True:
            facts["error"] = state.get("error")
    if title := get_text(state, "title"):
        facts["title"] = title[:_SHORT]
    time = get_dict(state, "time")
    start, end = time.get("start"), time.get("end")
    if isinstance(start, int | float) and isinstance(end, int | float) and end >= start:
        facts["duration_ms"] = end - start
    if time.get("compacted"):
        facts["cleared_from_context"] = True
    bulk = False
    for key, value in get_dict(state, "metadata").items():
        if key in _TOLD or value is None:
            continue
        if isinstance(value, bool | int | float) or (
            isinstance(value, str) and len(value) <= _SHORT and key not in _TWICE
        ):
            facts.setdefault(key, value)
        elif value:
            bulk = True
    return facts, bulk


def child_of(state: JsonObject) -> str | None:
    """The session that a call started, by either spelling."""
    metadata = get_dict(state, "metadata")
    return next((name for key in _CHILD if (name := get_text(metadata, key))), None)


def usage_of(tokens: Any, provider: str | None) -> Usage | None:
    """Token counts: OpenCode counts cached input apart, and reasoning apart since it says a
    total."""
    if type(tokens) is not dict:
        return None
    cache = get_dict(tokens, "cache")
    fresh, output, reasoning = (_count(tokens, name) for name in ("input", "output", "reasoning"))
    read, written = _count(cache, "read"), _count(cache, "write")
    made: Usage = {}
    if fresh is not None or read or written:
        made["input_tokens"] = (fresh or 0) + (read or 0) + (written or 0)
    if output is not None:
        apart = _is_apart(tokens, made.get("input_tokens", 0), output, reasoning or 0, provider)
        made["output_tokens"] = output + (reasoning or 0) if apart else output
    if reasoning is not None:
        made["reasoning_tokens"] = reasoning
    if read is not None:
        made["cache_read_tokens"] = read
    if written is not None:
        made["cache_write_tokens"] = written
    return made if any(made.values()) else None


def _is_apart(
    tokens: JsonObject, given: int, output: int, reasoning: int, provider: str | None
) -> bool:
    """Whether the output leaves the reasoning out. The total tells; before there was one, it was as
    the provider counts it, and of those only Google counts it apart."""
    total = _count(tokens, "total")
    if total:
        return total >= given + output + reasoning
    return reasoning > output or (provider or "").startswith("google")


def _count(holder: JsonObject, key: str) -> int | None:
    value = holder.get(key)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None
