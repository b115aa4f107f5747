"""Events that report the end of a tool call.

They add facts about an output, or hold the whole call where no response_item does. Each has two
forms: an event of its own and, since 0.14x, an item in an item_completed event.
"""

import re
from typing import Any

import msgspec

from open_token.agents.codex.duplicates import get_texts
from open_token.agents.codex.records import Line
from open_token.agents.codex.thread import CallEnd, Thread
from open_token.formats.shared.fields import as_text, drop_nulls, pick_fields
from open_token.formats.shared.responses_content import parse_content
from open_token.jsontools.media import build_media_block

_HEADER_PREFIXES = (
    "Chunk ID:",
    "Command:",
    "Exit code:",
    "Process exited with code",
    "Process running with",
    "Script ",
    "Wall time:",
)
_HEADER_FACTS = re.compile(
    r"^(?:Exit code: |Process exited with code )(?P<exit_code>-?\d{1,10})$"
    r"|^Wall time:? (?P<duration_seconds>\d{1,9}(?:\.\d{1,9})?) seconds?$"
    r"|^Script (?P<status>failed)$"
    r"|^Script running with cell ID (?P<cell_id>\S{1,64})$"
    r"|^Process running with session ID (?P<session_id>\d{1,18})$",
    re.MULTILINE,
)
_FACT_TYPES = {"duration_seconds": float, "status": str, "cell_id": str}
_MAX_HEADER_LENGTH = 600
_METADATA_KEY = '"metadata":'
_decode = msgspec.json.Decoder().decode


def parse_output_facts(output: Any) -> dict[str, Any]:
    """Return exit code and duration from the header of an output or the object around it."""
    if isinstance(output, list) and output and isinstance(output[0], dict):
        output = output[0].get("text")
    if not isinstance(output, str):
        return {}
    if output.startswith('{"output":') and output.endswith("}"):
        return _parse_metadata(output)
    if not output.startswith(_HEADER_PREFIXES):
        return {}
    header = output[:_MAX_HEADER_LENGTH].partition("\nOutput:")[0]
    facts: dict[str, Any] = {}
    for match in _HEADER_FACTS.finditer(header):
        name = str(match.lastgroup)
        facts[name] = _FACT_TYPES.get(name, int)(match[name])
    return facts


def _parse_metadata(output: str) -> dict[str, Any]:
    # Only the metadata at the end is decoded; the output before it may be large.
    position = output.rfind(_METADATA_KEY)
    if position < 0:
        return {}
    try:
        metadata = _decode(output[position + len(_METADATA_KEY) : -1].encode())
    except (ValueError, RecursionError):
        return {}
    if not isinstance(metadata, dict):
        return {}
    return pick_fields(metadata, "exit_code", "duration_seconds")


def _add_end(thread: Thread, line: Line, end: CallEnd) -> None:
    """Add the end of a call, whose output comes as an item, came before, or is only here."""
    call_id = end.call_id
    if call_id in thread.abandoned_calls:
        thread.draft.note_omission(
            "abandoned-result", line.position, "end of a call that was rolled back"
        )
    elif call_id is None or call_id not in thread.calls:
        _add_whole_call(thread, line, end)
    elif thread.draft.is_call_open(call_id):
        thread.ends[call_id] = end
    else:
        _add_late_end(thread, line, end, call_id)


def _add_late_end(thread: Thread, line: Line, end: CallEnd, call_id: str) -> None:
    """Annotate the end of a call whose output came before, often while its command still ran."""
    result = thread.results.get(call_id)
    if end.facts:
        native_id = None if result else call_id
        thread.annotate(line, "result_facts", result, native_call_id=native_id, **end.facts)
    thread.unseen.add_report(end.report, call_id, result, line.ts, ran_on=call_id in thread.running)
    thread.running.discard(call_id)


def _add_whole_call(thread: Thread, line: Line, end: CallEnd) -> None:
    key = thread.draft.add_tool_call(
        end.call_id,
        end.tool,
        end.arguments,
        thread.actors.assistant,
        ts=line.ts,
        span=thread.span,
        group=line.number,
    )
    thread.usage.add_output(f"evt_{thread.draft.count:06d}")
    thread.add_call(key, end.tool, thread.draft.count - 1)
    if end.output is not None:
        result = thread.draft.add_tool_result(
            key, end.output, ts=line.ts, span=thread.span, facts=end.facts
        )
        thread.unseen.add_shown(key, [end.arguments, end.output])
        thread.unseen.add_report(end.details, key, result, line.ts)
    elif end.facts:
        thread.annotate(line, "result_facts", native_call_id=end.call_id, **end.facts)


def _build_end(
    event: dict[str, Any],
    line: Line,
    tool: str,
    arguments: Any,
    output: Any,
    facts: dict[str, Any],
    details: dict[str, Any] | None = None,
) -> CallEnd:
    call_id = (
        as_text(event.get("call_id")) or as_text(event.get("callId")) or as_text(event.get("id"))
    )
    known = drop_nulls(facts)
    if not isinstance(arguments, dict | list):
        arguments = {}
    return CallEnd(call_id, tool, arguments, output, known, line.ts, details or {})


def _to_seconds(duration: Any) -> float | None:
    """Convert a duration as Rust serializes it: {secs, nanos}."""
    if not isinstance(duration, dict):
        return None
    seconds = duration.get("secs")
    nanos = duration.get("nanos")
    if type(seconds) is not int or type(nanos) is not int:
        return None
    return round(seconds + nanos / 1_000_000_000, 9)


def _get_unusual_status(event: dict[str, Any]) -> Any:
    status = event.get("status")
    return None if status == "completed" else status


def read_exec_command(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read exec_command_end, or the item CommandExecution."""
    facts = {
        "exit_code": event.get("exit_code"),
        "duration_seconds": _to_seconds(event.get("duration")),
        "status": _get_unusual_status(event),
    }
    if str(event.get("source")).lower() in ("user_shell", "usershell"):
        # A command that the person ran with `!`; the model got it as a message.
        thread.annotate(line, "user_shell", command=event.get("command"), **facts)
        return
    given = pick_fields(event, "command", "cwd")
    output = event.get("aggregated_output")
    _add_end(thread, line, _build_end(event, line, "shell", given, output, facts))


def read_patch_apply(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read patch_apply_end, or the item FileChange: what a patch changed."""
    changes = event.get("changes")
    files = {}
    if isinstance(changes, dict):
        files = {str(path): _get_change_type(change) for path, change in changes.items()}
    facts = {
        "success": event.get("success"),
        "status": _get_unusual_status(event),
        "files": files or None,
    }
    texts = [as_text(event.get("stdout")), as_text(event.get("stderr"))]
    output = "\n".join(text for text in texts if text) or None
    given = pick_fields(event, "changes")
    # A patch says what the model wants; the changes are the diff, or the whole deleted file.
    _add_end(thread, line, _build_end(event, line, "apply_patch", given, output, facts, given))


def _get_change_type(change: Any) -> Any:
    """Return add, update or delete; before 0.40 that was the only key of the change."""
    if not isinstance(change, dict):
        return change
    return change.get("type", next(iter(change), None))


def read_mcp_tool_call(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read mcp_tool_call_end, or the item McpToolCall."""
    invocation = event.get("invocation")
    if not isinstance(invocation, dict):
        invocation = event
    output, is_error, returned = _parse_mcp_result(event)
    facts = {
        "server": invocation.get("server"),
        "tool": invocation.get("tool"),
        "duration_seconds": _to_seconds(event.get("duration")),
        "is_error": is_error or None,
        "_meta": returned.get("_meta") or None,
    }
    tool = as_text(invocation.get("tool")) or "mcp"
    given = invocation.get("arguments")
    details = pick_fields(returned, "structuredContent", "structured_content")
    _add_end(thread, line, _build_end(event, line, tool, given, output, facts, details))


def _parse_mcp_result(event: dict[str, Any]) -> tuple[Any, bool, dict[str, Any]]:
    """Return output, whether it is an error, and the whole object that the server returned.

    Events have a Rust Result ({Ok} or {Err}), items have either a result or an error.
    """
    result = event.get("result")
    if isinstance(result, dict):
        if "Err" in result:
            return result["Err"], True, {}
        inner = result.get("Ok", result)
        if isinstance(inner, dict):
            return parse_content(inner.get("content")), bool(inner.get("isError")), inner
    error = event.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else error
        return message, True, {}
    return result, False, {}


def read_dynamic_tool_call(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read dynamic_tool_call_response, or the item DynamicToolCall."""
    parts = event.get("content_items")
    texts = get_texts(parts)
    output = parts or event.get("error")
    if isinstance(parts, list) and len(texts) == len(parts) == 1:
        output = texts[0]
    facts = {
        "success": event.get("success"),
        "error": event.get("error") if parts else None,
        "duration_seconds": _to_seconds(event.get("duration")),
    }
    tool = as_text(event.get("tool")) or "tool"
    given = event.get("arguments")
    _add_end(thread, line, _build_end(event, line, tool, given, output, facts))


def read_view_image(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read view_image_tool_call, or the item ImageView; the image is in the output of a call."""
    # The item stands for a whole call, the older event only for its end.
    output = "" if event.get("type") == "ImageView" else None
    _add_end(
        thread, line, _build_end(event, line, "view_image", pick_fields(event, "path"), output, {})
    )


def read_web_search(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read web_search_end, or the item WebSearch: the results of a search."""
    results = event.get("results")
    search = line.counterpart
    if search is None:
        action = event.get("action")
        given = action if isinstance(action, dict) else pick_fields(event, "query")
        _add_end(thread, line, _build_end(event, line, "web_search", given, results, {}))
        return
    if results is None or search.number >= line.number:
        return
    call_id = as_text(search.payload.get("id"))
    if call_id and thread.draft.is_call_open(call_id) and call_id not in thread.abandoned_calls:
        position = thread.draft.count
        thread.draft.add_tool_result(call_id, results, ts=line.ts, span=thread.span)
        thread.turns.assign(thread.calls[call_id].position, position)
    else:
        thread.annotate(line, "web_search_results", query=event.get("query"), results=results)


def read_image_generation(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read image_generation_end, or the item ImageGeneration: the path, or the whole call."""
    saved = pick_fields(event, "saved_path")
    if line.counterpart is None:
        image = as_text(event.get("result"))
        output = [build_media_block("image/png", image, "image")] if image else None
        given = pick_fields(event, "revised_prompt")
        _add_end(thread, line, _build_end(event, line, "image_generation", given, output, saved))
    elif saved:
        thread.annotate(line, "image_saved", **saved)
