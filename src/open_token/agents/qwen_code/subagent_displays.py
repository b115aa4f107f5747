"""What the screen of Qwen Code showed of a subagent that has no file of its own, told as a span."""

from typing import Any

from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_response,
    list_content_parts,
    unwrap_output,
)
from open_token.formats.shared.thread import Thread

Body = dict[str, Any]


def tell_display(parent: Thread, shown: Body, call: str | None, ts: str | None) -> None:
    """A span with the prompt of a subagent and the calls that it made."""
    draft, kind = parent.draft, as_text(shown.get("subagentName"))
    if draft.subagents == "none":
        draft.note_omission(
            "subagent", f"event {draft.count}", "what a subagent did is left out (subagents=none)"
        )
        return
    data: Body = {"kind": "subagent"}
    if reason := as_text(shown.get("taskDescription")):
        data["spawn_reason"] = reason
    if kind:
        data |= {"tooling_scope": kind, "subagent_type": kind}
    child = parent.create_child(kind, None, kind or "subagent")
    child.span = draft.start_span(data, child.user_actor, ts=ts, call=call)
    if draft.subagents == "inline":
        _tell(child, shown)
    ended = pick_fields(shown, "status", "terminateReason", "executionSummary")
    draft.end_span(child.span, ended, ts=ts, call=call)


def _tell(child: Thread, shown: Body) -> None:
    if prompt := as_text(shown.get("taskPrompt")):
        child.add_message("user", prompt, child.user_actor)
    calls = shown.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        child.set_model(None)
        given = call.get("args")
        tool = as_text(call.get("name")) or "tool"
        key = child.add_tool_call(as_text(call.get("callId")), tool, {} if given is None else given)
        parts = list_content_parts(call.get("responseParts"))
        answer = next((found for part in parts if (found := get_function_response(part))), None)
        result, status = (
            as_text(call.get("result")) or as_text(call.get("error")),
            call.get("status"),
        )
        if answer is not None:
            output, failed = unwrap_output(answer, [])
            child.add_tool_result(key, output, facts=build_result_facts(status, failed))
        elif result is not None:
            child.add_tool_result(
                key,
                result,
                facts=build_result_facts({"failed": "error"}.get(str(status), status), False),
            )
