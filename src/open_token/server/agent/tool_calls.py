"""Execute tool calls: check arguments, limit time, split off `_meta`, and store large results."""

import asyncio
import contextlib
from typing import Any

import msgspec
from msgspec import Struct, field

from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import (
    ContentBlock,
    ToolCallProjection,
    build_meta_blocks,
    split_meta,
    to_builtins,
)
from open_token.server.agent.run_context import RunContext
from open_token.server.agent.tools import cards
from open_token.server.agent.tools.interface import Tool, ToolError
from open_token.server.clock import parse_timestamp
from open_token.server.errors import ApiError

INTERRUPTED = "interrupted by a restart of the server; it is not known how far it came"
NOT_WHILE_PLANNING = "no tool runs in planning mode; put it into the plan"
_MAX_ARGUMENTS = 4 << 20
_PREVIEW_CHARACTERS = 2000
_BUILTIN_TOOLS = (cards.Plan(), cards.ShowCard(), cards.HostAction())


class CallOutcome(Struct, frozen=True):
    """The outcome of a call, before it is written to the log."""

    result: Any
    status: str = "done"
    blocks: list[ContentBlock] = field(default_factory=list)


def get_builtin_tools() -> dict[str, Tool]:
    """Return the tools that show something and belong to the loop."""
    return {tool.spec.name: tool for tool in _BUILTIN_TOOLS}


def failed_outcome(message: str) -> CallOutcome:
    """Return the outcome of a failed call, described for the model."""
    return CallOutcome({"error": message}, "error")


def parse_arguments(call: ToolCallProjection) -> Json:
    """Parse the arguments of a call; raise ToolError when they are not an object."""
    if len(call.arguments) > _MAX_ARGUMENTS:
        raise ToolError("the arguments are too long")
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        raise ToolError("the arguments are not valid JSON") from None
    if not isinstance(arguments, dict):
        raise ToolError("the arguments are not a JSON object")
    return arguments


async def execute_call(
    context: RunContext, turn_id: str, loop_id: str, call: ToolCallProjection, mode: str
) -> CallOutcome:
    """Call a tool; any error is an outcome too."""
    tool = context.tools.get(call.tool_name)
    if tool is None:
        return failed_outcome("there is no tool with this name")
    if mode == "planning":
        return failed_outcome(NOT_WHILE_PLANNING)
    limit = getattr(tool, "timeout", None) or context.services.config.tool_timeout
    try:
        arguments = parse_arguments(call)
        tool_context = context.build_tool_context(turn_id, call.id, loop_id)
        async with asyncio.timeout(limit):
            result = await tool.run(arguments, tool_context)
        return _build_outcome(result, call)
    except ToolError as error:
        return failed_outcome(str(error))
    except ApiError as error:
        return failed_outcome(error.detail)
    except TimeoutError:
        return failed_outcome(f"timed out after {limit:g} seconds")
    except Exception as error:  # a tool may be third-party code
        return failed_outcome(f"the tool failed: {type(error).__name__}")


def _build_outcome(value: Any, call: ToolCallProjection) -> CallOutcome:
    result, meta = split_meta(value)
    try:
        result = msgspec.json.decode(msgspec.json.encode(result))
        blocks = build_meta_blocks(meta, call)
        for block in blocks:
            msgspec.json.encode(block.content)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.DecodeError):
        return failed_outcome("the tool returned a value that cannot be encoded as JSON")
    plan = meta.get("plan")
    if call.tool_name == cards.Plan.spec.name and isinstance(plan, dict):
        blocks.append(ContentBlock(type="plan_status", content=plan))
    is_error = isinstance(result, dict) and result.keys() == {"error"}
    return CallOutcome(result, "error" if is_error else "done", blocks)


async def write_result(
    context: RunContext,
    turn_id: str,
    call: ToolCallProjection,
    outcome: CallOutcome,
    started_at: str,
) -> None:
    """Write the outcome of a call; a result that is too long for the log becomes a blob."""
    result = outcome.result
    blobs = []
    encoded = msgspec.json.encode(result)
    # An entry of the log becomes one frame for clients, whose size is limited.
    if len(encoded) > context.services.config.limits.frame_bytes:
        if isinstance(result, str):
            data = result.encode()
            media_type = "text/plain; charset=utf-8"
        else:
            data = encoded
            media_type = "application/json"
        blob = await context.services.store.put_blob(data, media_type)
        preview = data[: 4 * _PREVIEW_CHARACTERS].decode("utf-8", "ignore")
        result = {
            "blob": blob.sha256,
            "size": blob.size,
            "media_type": media_type,
            "preview": preview[:_PREVIEW_CHARACTERS],
        }
        blobs = [blob.sha256]
    events: list[NewEvent] = []
    for block in outcome.blocks:
        events.append(("block.added", {"turn_id": turn_id, "block": to_builtins(block)}))
    returned: Json = {
        "turn_id": turn_id,
        "tool_call_id": call.id,
        "result": result,
        "status": outcome.status,
        "duration_ms": elapsed_ms(started_at, context.services.clock.now()),
    }
    events.append(("tool.result", returned))
    await context.write(events, blobs=blobs)


def elapsed_ms(started_at: str | None, now: str) -> int:
    """Return the milliseconds between two times; 0 if the start is unknown."""
    with contextlib.suppress(ValueError, TypeError):
        elapsed = parse_timestamp(now) - parse_timestamp(started_at or now)
        return max(0, int(elapsed.total_seconds() * 1000))
    return 0
