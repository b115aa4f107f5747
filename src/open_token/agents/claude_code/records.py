"""The lines of a Claude Code file as structs.

Only the fields that the reader uses are built; bulky ones such as `toolUseResult` stay bytes.
"""

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
    """One record with the fields that messages have."""

    parent_uuid: Any = None
    is_sidechain: Any = None
    agent_id: Any = None
    type: Any = None
    prompt_id: Any = None
    message: Message | None = None
    is_meta: Any = None
    is_compact_summary: Any = None
    plan_content: Any = None
    is_api_error_message: Any = None
    is_aborted_mid_stream: Any = None
    uuid: Any = None
    timestamp: Any = None
    # msgspec allows no Raw in a union, but it does not check the default value.
    tool_use_result: msgspec.Raw = cast(msgspec.Raw, None)
    data: msgspec.Raw = cast(msgspec.Raw, None)
    """What a `progress` record reports."""
    parent_tool_use_id: Any = msgspec.field(default=None, name="parentToolUseID")
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
    record: Any = msgspec.field(default=None, name="(record)")
    """The complete record, for the kinds that need more than the fields above."""


class AgentProgress(msgspec.Struct, gc=False, rename="camel"):
    """What a `progress` record reports about a subagent: one message, or all so far."""

    type: Any = None
    agent_id: Any = None
    message: Any = None
    normalized_messages: Any = None


class _SubagentResult(msgspec.Struct, gc=False, rename="camel"):
    """What is used of the `toolUseResult` of a subagent's call."""

    agent_id: Any = None
    status: Any = None
    total_duration_ms: Any = None
    total_tokens: Any = None
    total_tool_use_count: Any = None


_decode_line = msgspec.json.Decoder(Line).decode
_decode_subagent_result = msgspec.json.Decoder(_SubagentResult).decode
_decode_agent_progress = msgspec.json.Decoder(AgentProgress).decode
_decode_any = msgspec.json.Decoder().decode
_FIELD_NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(Line)}
_MESSAGE_KINDS = ("user", "assistant")
_COMPLETE_KINDS = (
    "system",
    "attachment",
    "summary",
    "ai-title",
    "custom-title",
    "api-request-shape",
    "cost-state",
    "pr-link",
    "queue-operation",
)
_SAFE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")


def decode_line(raw: bytes) -> Any:
    """Decode one line of a file into a Line; JSON that is no object is returned as it is."""
    try:
        line = _decode_line(raw)
        if line.type not in _MESSAGE_KINDS and line.type in _COMPLETE_KINDS:
            line.record = _decode_any(raw)
    except msgspec.ValidationError:
        return to_line(_decode_any(raw))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return line


def to_line(value: Any) -> Any:
    """Return a Line for a record that another decoder built; anything else as it is."""
    if type(value) is not dict:
        return value
    fields = {name: value[key] for key, name in _FIELD_NAMES.items() if key in value}
    line = Line(**fields)
    line.record = value
    message = value.get("message")
    line.message = _to_message(message) if type(message) is dict else None
    return line


def _to_message(value: Record) -> Message:
    message = Message(
        value.get("id"), value.get("model"), value.get("content"), value.get("stop_reason")
    )
    counts = value.get("usage")
    if type(counts) is dict:
        known = {key: counts[key] for key in TokenCounts.__struct_fields__ if key in counts}
        if known:
            message.usage = TokenCounts(**known)
    return message


def parse_subagent_result(value: Any) -> Record | None:
    """Return what a `toolUseResult` says about the subagent that produced it, if anything."""
    try:
        raw = value if type(value) is msgspec.Raw else msgspec.json.encode(value)
        result = _decode_subagent_result(raw)
    except (ValueError, RecursionError):
        return None
    fields = (
        ("agent_id", result.agent_id, str),
        ("status", result.status, str),
        ("duration_ms", result.total_duration_ms, int),
        ("total_tokens", result.total_tokens, int),
        ("tool_uses", result.total_tool_use_count, int),
    )
    facts = {name: item for name, item, kind in fields if type(item) is kind}
    return facts or None


def parse_progress_output(value: Any) -> str | None:
    """Return all that a command has printed so far, as the `data` of a progress record has it."""
    try:
        raw = bytes(value) if type(value) is msgspec.Raw else msgspec.json.encode(value)
        if b'"fullOutput"' not in raw:
            return None
        return get_text(_decode_any(raw), "fullOutput")
    except (ValueError, TypeError, RecursionError):
        return None


def parse_agent_progress(value: Any) -> AgentProgress | None:
    """Return what the `data` of a progress record says about a subagent, if it is about one."""
    try:
        raw = bytes(value) if type(value) is msgspec.Raw else msgspec.json.encode(value)
        # Most records are about the output of a command: those are not decoded.
        if b"agent_progress" not in raw:
            return None
        progress = _decode_agent_progress(raw)
    except (ValueError, TypeError, RecursionError):
        return None
    return progress if progress.type == "agent_progress" else None


def to_safe_name(value: Any) -> str:
    """Return a short identifier of the runtime, fit for a note; `unknown` for anything else."""
    return value if isinstance(value, str) and _SAFE_NAME.fullmatch(value) else "unknown"


def to_text(value: Any) -> str | None:
    """Return a non-empty string as it is, None for anything else."""
    return value if isinstance(value, str) and value else None


def get_text(record: Any, key: str) -> str | None:
    """Return a field if it holds a non-empty string."""
    return to_text(record.get(key)) if type(record) is dict else None
