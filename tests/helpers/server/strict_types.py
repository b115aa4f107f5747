"""A strict validator of the core types, written from the specification alone.

Fields beyond the specification are allowed; a field that it names must be there and fit.
"""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_TEXT = (str,)
_OPTIONAL_TEXT = (str, type(None))
_BLOCK_CONTENT: dict[str, tuple[type, ...]] = {
    "text": _TEXT,
    "thinking": _TEXT,
    "tool_use": (dict,),
    "tool_result": (object,),
    "tool_ui": (dict,),
    "tool_bridge": (dict,),
    "system_notification": _TEXT,
    "mode_change": (dict,),
    "planning_enter": (object,),
    "planning_exit": (object,),
    "plan_status": (dict,),
    "ask_user_answer": (dict,),
}
_CALL_STATUSES = ("pending", "done", "error", "cancelled", "awaiting_answer")
_TURN_STATUSES = ("streaming", "completed", "paused", "failed", "interrupted")
_SESSION_STATUSES = (
    "created",
    "running",
    "completed",
    "failed",
    "interrupted",
    "waiting_for_input",
)


def find_turn_faults(turn: Json) -> Iterator[str]:
    """Yield what is wrong with a TurnProjection."""
    yield from _check_types(
        "turn",
        turn,
        id=_TEXT,
        sequence=(int,),
        turn_id=_TEXT,
        loop_id=_TEXT,
        blocks=(list,),
        tool_calls=(list,),
        model=_OPTIONAL_TEXT,
        usage=(dict, type(None)),
        duration_ms=(int,),
        started_at=_OPTIONAL_TEXT,
        context_window=(int,),
        memory_refs=(list, type(None)),
        parent_fork_tool_call_id=_OPTIONAL_TEXT,
    )
    yield from _check_values("turn.kind", turn.get("kind"), ("message", "compaction"))
    yield from _check_values("turn.role", turn.get("role"), ("user", "assistant", "system"))
    yield from _check_values("turn.status", turn.get("status"), _TURN_STATUSES)
    for block in turn.get("blocks", ()):
        yield from find_block_faults(block)
    for call in turn.get("tool_calls", ()):
        yield from find_call_faults(call)


def find_block_faults(block: Json) -> Iterator[str]:
    """Yield what is wrong with a ContentBlock."""
    kind = block.get("type")
    if kind not in _BLOCK_CONTENT:
        yield f"block.type {kind!r}"
    elif not isinstance(block.get("content"), _BLOCK_CONTENT[kind]):
        yield f"block {kind} holds {type(block.get('content')).__name__}"


def find_call_faults(call: Json, *, is_patch: bool = False) -> Iterator[str]:
    """Yield what is wrong with a ToolCallProjection, or with the data of `add_tool_call`."""
    yield from _check_types(
        "call", call, id=_TEXT, tool_name=_TEXT, display_name=_TEXT, arguments=_TEXT
    )
    yield from _check_values("call.status", call.get("status"), _CALL_STATUSES)
    try:
        json.loads(call.get("arguments", ""))
    except ValueError:
        yield f"call.arguments is no JSON: {call.get('arguments')!r}"
    if not is_patch:
        yield from _check_types("call", call, duration_ms=(int, type(None)))


def find_patch_faults(patch: Json) -> Iterator[str]:
    """Yield what is wrong with a PatchEnvelope."""
    yield from _check_types(
        "patch",
        patch,
        session_id=_TEXT,
        sequence=(int,),
        turn_id=_TEXT,
        loop_id=_TEXT,
        data=(dict,),
    )
    data = patch.get("data", {})
    kind = patch.get("patch_type")
    if kind == "add_content":
        if "text_delta" not in data:
            yield from find_block_faults(data)
    elif kind == "add_tool_call":
        yield from find_call_faults(data, is_patch=True)
    elif kind == "tool_result":
        yield from _check_types("tool_result", data, tool_call_id=_TEXT, result=(object,))
        yield from _check_values("tool_result.status", data.get("status"), _CALL_STATUSES)
    elif kind == "set_status":
        yield from _check_values("set_status", data.get("status"), _TURN_STATUSES)
    elif kind == "set_tool_status":
        yield from _check_types("set_tool_status", data, tool_call_id=_TEXT)
        yield from _check_values("set_tool_status", data.get("status"), _CALL_STATUSES)
    else:
        yield f"patch_type {kind!r}"


def find_session_faults(session: Json) -> Iterator[str]:
    """Yield what is wrong with a Session."""
    flags = ("shared", "is_pinned", "memory_enabled", "is_persistent")
    yield from _check_types("session", session, id=_TEXT, intent=_TEXT)
    yield from _check_types("session", session, **dict.fromkeys(flags, (bool,)))
    yield from _check_values("session.status", session.get("status"), _SESSION_STATUSES)


def find_event_faults(name: str, payload: Json) -> Iterator[str]:
    """Yield what is wrong with a live event."""
    if name in ("turn:start", "turn:end"):
        yield from find_turn_faults(payload)
    elif name == "turn:patch":
        yield from find_patch_faults(payload)
    elif name == "session:updated":
        yield from find_session_faults(payload)


def _check_types(where: str, value: Json, **types: tuple[type, ...]) -> Iterator[str]:
    for name, allowed in types.items():
        if name not in value:
            yield f"{where}.{name} is missing"
        elif not isinstance(value[name], allowed):
            yield f"{where}.{name} is {type(value[name]).__name__}"


def _check_values(where: str, value: Any, allowed: tuple[str, ...]) -> Iterator[str]:
    if value not in allowed:
        yield f"{where} is {value!r}"
