"""Ends of calls as events tell them: facts about the output, or the whole call where no item holds
it."""

import re
from typing import Any

import msgspec

from open_token.agents.codex.lines import Line
from open_token.agents.codex.mirrored_events import texts_in
from open_token.agents.codex.thread import End, Thread
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.responses_content import parse_content
from open_token.jsontools.media import build_media_block

_HEADS = (
    "Chunk ID:",
    "Command:",
    "Exit code:",
    "Process exited with code",
    "Process running with",
    "Script ",
    "Wall time:",
)
_FACTS = re.compile(
    r"^(?:Exit code: |Process exited with code )(?P<exit_code>-?\d{1,10})$"
    r"|^Wall time:? (?P<duration_seconds>\d{1,9}(?:\.\d{1,9})?) seconds?$"
    r"|^Script (?P<status>failed)$"
    r"|^Script running with cell ID (?P<cell_id>\S{1,64})$"
    r"|^Process running with session ID (?P<session_id>\d{1,18})$",
    re.MULTILINE,
)
_KINDS = {"duration_seconds": float, "status": str, "cell_id": str}
_HEAD_LENGTH = 600
_decode = msgspec.json.Decoder().decode


def facts_of(output: Any) -> dict[str, Any]:
    """What an output says of itself: exit code and duration, from its header or the object around
    it."""
    if isinstance(output, list) and output and isinstance(output[0], dict):
        output = output[0].get("text")
    if not isinstance(output, str):
        return {}
    if output.startswith('{"output":') and output.endswith("}"):
        return _metadata(output)
    if not output.startswith(_HEADS):
        return {}
    head = output[:_HEAD_LENGTH].partition("\nOutput:")[0]
    facts: dict[str, Any] = {}
    for found in _FACTS.finditer(head):
        name, value = str(found.lastgroup), found[str(found.lastgroup)]
        facts[name] = _KINDS.get(name, int)(value)
    return facts


def _metadata(output: str) -> dict[str, Any]:
    at = output.rfind('"metadata":')
    if at < 0:
        return {}
    try:
        metadata = _decode(output[at + 11 : -1].encode())
    except (ValueError, RecursionError):
        return {}
    return (
        pick_fields(metadata, "exit_code", "duration_seconds") if isinstance(metadata, dict) else {}
    )


def _ended(thread: Thread, line: Line, end: End) -> None:
    """A call has ended. Its output comes as an item of its own, came already, or is here alone."""
    call_id = end.call_id
    if call_id in thread.abandoned:
        thread.draft.note_omission(
            "abandoned-result", line.place, "the end of a call that was taken back"
        )
    elif call_id is None or call_id not in thread.calls:
        _call_alone(thread, line, end)
    elif thread.draft.is_call_open(call_id):
        thread.ends[call_id] = end
    elif end.facts:
        # The output went to the model while the process still ran; it ended later.
        parent = thread.results.get(call_id)
        thread.note(
            line, "result_facts", parent, native_call_id=None if parent else call_id, **end.facts
        )


def _call_alone(thread: Thread, line: Line, end: End) -> None:
    key = thread.draft.add_tool_call(
        end.call_id,
        end.tool,
        end.arguments,
        thread.voices.assistant,
        ts=line.ts,
        span=thread.span,
        group=line.number,
    )
    thread.spending.spoke(f"evt_{thread.draft.count:06d}")
    thread.called(key, end.tool, thread.draft.count - 1)
    if end.output is not None:
        thread.draft.add_tool_result(key, end.output, ts=line.ts, span=thread.span, facts=end.facts)
    elif end.facts:
        thread.note(line, "result_facts", native_call_id=end.call_id, **end.facts)


def _end(
    event: dict[str, Any], line: Line, tool: str, arguments: Any, output: Any, facts: dict[str, Any]
) -> End:
    call_id = (
        as_text(event.get("call_id")) or as_text(event.get("callId")) or as_text(event.get("id"))
    )
    known = {name: value for name, value in facts.items() if value is not None}
    return End(
        call_id,
        tool,
        arguments if isinstance(arguments, dict | list) else {},
        output,
        known,
        line.ts,
    )


def seconds(duration: Any) -> float | None:
    """A duration as Codex writes it, {secs, nanos}, in seconds."""
    if not isinstance(duration, dict):
        return None
    secs, nanos = duration.get("secs"), duration.get("nanos")
    if type(secs) is not int or type(nanos) is not int:
        return None
    return round(secs + nanos / 1_000_000_000, 9)


def exec_command(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """exec_command_end, or the item CommandExecution."""
    facts = {
        "exit_code": event.get("exit_code"),
        "duration_seconds": seconds(event.get("duration")),
        "status": _unless_completed(event.get("status")),
    }
    if str(event.get("source")).lower() in ("user_shell", "usershell"):
        # A command the person ran with `!`; the model got it as a message.
        thread.note(line, "user_shell", command=event.get("command"), **facts)
        return
    given = pick_fields(event, "command", "cwd")
    _ended(thread, line, _end(event, line, "shell", given, event.get("aggregated_output"), facts))


def patch_apply(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """patch_apply_end, or the item FileChange; the patch itself is in the call."""
    changes = event.get("changes")
    files = (
        {str(path): _change(change) for path, change in changes.items()}
        if isinstance(changes, dict)
        else None
    )
    facts = {
        "success": event.get("success"),
        "status": _unless_completed(event.get("status")),
        "files": files or None,
    }
    texts = [text for text in (as_text(event.get("stdout")), as_text(event.get("stderr"))) if text]
    output = "\n".join(texts) if texts else None
    _ended(
        thread, line, _end(event, line, "apply_patch", pick_fields(event, "changes"), output, facts)
    )


def _change(change: Any) -> Any:
    """Added, updated or deleted; before 0.40 it was the name of the only key."""
    return change.get("type", next(iter(change), None)) if isinstance(change, dict) else change


def mcp_tool_call(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """mcp_tool_call_end, or the item McpToolCall."""
    invocation = event.get("invocation")
    asked = invocation if isinstance(invocation, dict) else event
    output, is_error, meta = _mcp_result(event)
    facts = {
        "server": asked.get("server"),
        "tool": asked.get("tool"),
        "duration_seconds": seconds(event.get("duration")),
        "is_error": is_error or None,
        "_meta": meta or None,
    }
    tool = as_text(asked.get("tool")) or "mcp"
    _ended(thread, line, _end(event, line, tool, asked.get("arguments"), output, facts))


def _mcp_result(event: dict[str, Any]) -> tuple[Any, bool, Any]:
    """The output, whether it is an error, and what came beside it."""
    result, error = event.get("result"), event.get("error")
    if isinstance(result, dict) and "Err" in result:
        return result["Err"], True, None
    if isinstance(result, dict):
        inner = result.get("Ok", result)
        if isinstance(inner, dict):
            return (
                parse_content(inner.get("content")),
                bool(inner.get("isError")),
                inner.get("_meta"),
            )
    if error is not None:
        return error.get("message") if isinstance(error, dict) else error, True, None
    return result, False, None


def dynamic_tool_call(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """dynamic_tool_call_response, or the item DynamicToolCall."""
    parts = event.get("content_items")
    texts = texts_in(parts)
    is_text = isinstance(parts, list) and len(texts) == len(parts) == 1
    output = texts[0] if is_text else parts or event.get("error")
    facts = {
        "success": event.get("success"),
        "error": event.get("error") if parts else None,
        "duration_seconds": seconds(event.get("duration")),
    }
    tool = as_text(event.get("tool")) or "tool"
    _ended(thread, line, _end(event, line, tool, event.get("arguments"), output, facts))


def view_image(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """view_image_tool_call, or the item ImageView: the picture itself is in the call's output, or
    in a script's."""
    output = "" if event.get("type") == "ImageView" else None
    _ended(thread, line, _end(event, line, "view_image", pick_fields(event, "path"), output, {}))


def web_search(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """web_search_end, or the item WebSearch: what was found, where the search itself is an item."""
    found, partner, action = event.get("results"), line.partner, event.get("action")
    if partner is None:
        given = action if isinstance(action, dict) else pick_fields(event, "query")
        _ended(thread, line, _end(event, line, "web_search", given, found, {}))
    elif found is not None and partner.number < line.number:
        own = as_text(partner.payload.get("id"))
        if own and thread.draft.is_call_open(own) and own not in thread.abandoned:
            first = thread.draft.count
            thread.draft.add_tool_result(own, found, ts=line.ts, span=thread.span)
            thread.turns.belong(thread.calls[own][1], first)
        else:
            thread.note(line, "web_search_results", query=event.get("query"), results=found)


def image_generation(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """image_generation_end, or the item ImageGeneration: where the picture was put, or the whole
    call."""
    saved = pick_fields(event, "saved_path")
    if line.partner is None:
        image = as_text(event.get("result"))
        output = [build_media_block("image/png", image, "image")] if image else None
        _ended(
            thread,
            line,
            _end(
                event, line, "image_generation", pick_fields(event, "revised_prompt"), output, saved
            ),
        )
    elif saved:
        thread.note(line, "image_saved", **saved)


def _unless_completed(status: Any) -> Any:
    return None if status == "completed" else status
