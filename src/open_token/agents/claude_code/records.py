"""The lines of a Claude Code file as records: only what is told is built, the bulk beside it stays
bytes."""

import re
from typing import Any, cast

import msgspec

Record = dict[str, Any]


class TokenCounts(msgspec.Struct, gc=False):
    """The usage of a message, as the API counts it."""

    input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    cache_read_input_tokens: Any = None
    output_tokens: Any = None
    output_tokens_details: Any = None
    iterations: Any = None


class Message(msgspec.Struct, gc=False):
    """An API message, or the part of one that a line holds."""

    id: Any = None
    model: Any = None
    content: Any = None
    stop_reason: Any = None
    usage: TokenCounts | None = None


class Line(msgspec.Struct, gc=False, rename="camel"):
    """A record: what lines of talk have in common; all of it, for the few kinds that need more, in
    `whole`."""

    parent_uuid: Any = None
    is_sidechain: Any = None
    agent_id: Any = None
    type: Any = None
    prompt_id: Any = None
    message: Message | None = None
    is_meta: Any = None
    is_compact_summary: Any = None
    is_api_error_message: Any = None
    is_aborted_mid_stream: Any = None
    uuid: Any = None
    timestamp: Any = None
    # No union may hold a Raw, but the value for an absent key is never looked at by the decoder.
    tool_use_result: msgspec.Raw = cast(msgspec.Raw, None)
    tool_denial_kind: Any = None
    source_tool_use_id: Any = msgspec.field(default=None, name="sourceToolUseID")
    origin: Any = None
    error: Any = None
    entrypoint: Any = None
    cwd: Any = None
    session_id: Any = None
    version: Any = None
    git_branch: Any = None
    cost_usd: Any = msgspec.field(default=None, name="costUSD")
    duration_ms: Any = None
    model: Any = None
    whole: Any = msgspec.field(default=None, name="(whole)")


class _Side(msgspec.Struct, gc=False, rename="camel"):
    """What is told of the side data of a subagent's result."""

    agent_id: Any = None
    status: Any = None
    total_duration_ms: Any = None
    total_tokens: Any = None
    total_tool_use_count: Any = None


_line = msgspec.json.Decoder(Line).decode
_side = msgspec.json.Decoder(_Side).decode
_any = msgspec.json.Decoder().decode
_NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(Line)}
_TALK = ("user", "assistant")
_WHOLE = (
    "system",
    "attachment",
    "summary",
    "ai-title",
    "custom-title",
    "api-request-shape",
    "cost-state",
    "pr-link",
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")


def decode(raw: bytes) -> Any:
    """What makes a Line of a line."""
    try:
        line = _line(raw)
        if line.type not in _TALK and line.type in _WHOLE:
            line.whole = _any(raw)
    except msgspec.ValidationError:
        return as_line(_any(raw))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return line


def as_line(value: Any) -> Any:
    """A Line from a record that another decoder built; anything else as it is."""
    if type(value) is not dict:
        return value
    line = Line(**{name: value[key] for key, name in _NAMES.items() if key in value})
    line.whole = value
    message = value.get("message")
    line.message = _as_message(message) if type(message) is dict else None
    return line


def _as_message(value: Record) -> Message:
    counts = value.get("usage")
    given = (
        {key: counts[key] for key in TokenCounts.__struct_fields__ if key in counts}
        if type(counts) is dict
        else {}
    )
    usage = TokenCounts(**given) if given else None
    return Message(
        value.get("id"), value.get("model"), value.get("content"), value.get("stop_reason"), usage
    )


def side_facts(value: Any) -> Record | None:
    """What the side data of a result says of the subagent that worked for it."""
    try:
        side = _side(value if type(value) is msgspec.Raw else msgspec.json.encode(value))
    except (ValueError, RecursionError):
        return None
    named = {
        "agent_id": (side.agent_id, str),
        "status": (side.status, str),
        "duration_ms": (side.total_duration_ms, int),
        "total_tokens": (side.total_tokens, int),
        "tool_uses": (side.total_tool_use_count, int),
    }
    return {name: found for name, (found, kind) in named.items() if type(found) is kind} or None


def name_of(value: Any) -> str:
    """A short word of the runtime's own, fit for a note; `unknown` for anything else."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else "unknown"


def text(value: Any) -> str | None:
    """A value that is text, and not empty."""
    return value if isinstance(value, str) and value else None


def text_in(record: Any, key: str) -> str | None:
    """A field that holds text."""
    return text(record.get(key)) if type(record) is dict else None
