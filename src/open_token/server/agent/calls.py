"""Carries out calls of tools: arguments checked, time limited, what is for the page taken out, big
results put by."""

import asyncio
import contextlib
from typing import Any

import msgspec
from msgspec import Struct, field

from open_token.entries import Json, Step
from open_token.server.agent.tools import showing
from open_token.server.agent.tools.interface import Tool, ToolFault
from open_token.server.agent.work import Work
from open_token.server.clock import moment_of
from open_token.server.refusals import Refused
from open_token.turns import ContentBlock, ToolCallProjection, blocks_of_meta, plain, without_meta

INTERRUPTED = "interrupted by a restart of the server; it is not known how far it came"
NOT_WHILE_PLANNING = "no tool runs in planning mode; put it into the plan"
_MOST_ARGUMENTS = 4 << 20
_ALWAYS = (showing.Plan(), showing.ShowCard(), showing.HostAction())


class Came(Struct, frozen=True):
    """What a call came to, before it is written down."""

    result: Any
    status: str = "done"
    blocks: list[ContentBlock] = field(default_factory=list)


def own_tools() -> dict[str, Tool]:
    """The tools that show something and belong to the loop."""
    return {tool.spec.name: tool for tool in _ALWAYS}


def failed(words: str) -> Came:
    """A call that failed, in words for the model."""
    return Came({"error": words}, "error")


def arguments_of(call: ToolCallProjection) -> Json:
    """The arguments of a call; ToolFault when they are no object."""
    if len(call.arguments) > _MOST_ARGUMENTS:
        raise ToolFault("the arguments are too long")
    try:
        given = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        raise ToolFault("the arguments are no JSON") from None
    if not isinstance(given, dict):
        raise ToolFault("the arguments are no JSON object")
    return given


async def carried_out(
    work: Work, turn_id: str, loop_id: str, call: ToolCallProjection, mode: str
) -> Came:
    """Call a tool; whatever goes wrong with it is a result too."""
    tool = work.tools.get(call.tool_name)
    if tool is None:
        return failed("there is no tool of this name")
    if mode == "planning":
        return failed(NOT_WHILE_PLANNING)
    limit = getattr(tool, "timeout", None) or work.services.config.tool_timeout
    try:
        arguments = arguments_of(call)
        async with asyncio.timeout(limit):
            result = await tool.run(arguments, work.place(turn_id, call.id, loop_id))
        return _came(result, call)
    except ToolFault as fault:
        return failed(str(fault))
    except Refused as fault:
        return failed(fault.detail)
    except TimeoutError:
        return failed(f"timed out after {limit:g} seconds")
    except Exception as fault:  # a tool may be anybody's code, and its fault is not the loop's
        return failed(f"the tool failed: {type(fault).__name__}")


def _came(given: Any, call: ToolCallProjection) -> Came:
    result, meta = without_meta(given)
    try:
        result = msgspec.json.decode(msgspec.json.encode(result))
        blocks = [
            block for block in blocks_of_meta(meta, call) if msgspec.json.encode(block.content)
        ]
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.DecodeError):
        return failed("the tool gave back something that is no JSON")
    if call.tool_name == showing.Plan.spec.name and isinstance(meta.get("plan"), dict):
        blocks.append(ContentBlock(type="plan_status", content=meta["plan"]))
    is_error = isinstance(result, dict) and result.keys() == {"error"}
    return Came(result, "error" if is_error else "done", blocks)


async def write_result(
    work: Work, turn_id: str, call: ToolCallProjection, came: Came, began: str
) -> None:
    """Write down what a call came to; what is too long for the log is kept beside it."""
    result, blobs = came.result, []
    encoded = msgspec.json.encode(result)
    if len(encoded) > work.services.config.limits.frame_bytes:
        data = result.encode() if isinstance(result, str) else encoded
        kind = "text/plain; charset=utf-8" if isinstance(result, str) else "application/json"
        blob = await work.services.store.put_blob(data, kind)
        preview = data[:8000].decode("utf-8", "ignore")[:2000]
        result = {"blob": blob.sha256, "size": blob.size, "media_type": kind, "preview": preview}
        blobs = [blob.sha256]
    now = work.services.clock.now()
    told: Json = {
        "turn_id": turn_id,
        "tool_call_id": call.id,
        "result": result,
        "status": came.status,
        "duration_ms": milliseconds(began, now),
    }
    steps: list[Step] = [
        ("block.added", {"turn_id": turn_id, "block": plain(block)}) for block in came.blocks
    ]
    await work.write([*steps, ("tool.result", told)], blobs=blobs)


def milliseconds(began: str | None, now: str) -> int:
    """How long something took."""
    with contextlib.suppress(ValueError, TypeError):
        return max(0, int((moment_of(now) - moment_of(began or now)).total_seconds() * 1000))
    return 0
