"""What the screen of Qwen Code showed of a subagent that has no file of its own, told as a span."""

from typing import Any

from open_token.formats.shared.gemini_tool_outputs import answer_in, facts_of, output_of, parts_in
from open_token.formats.shared.responses_content import kept, word
from open_token.formats.shared.thread import Strand

Body = dict[str, Any]


def tell_display(parent: Strand, shown: Body, call: str | None, ts: str | None) -> None:
    """A span with the prompt of a subagent and the calls that it made."""
    draft, kind = parent.draft, word(shown.get("subagentName"))
    if draft.subagents == "none":
        draft.note_omission(
            "subagent", f"event {draft.count}", "what a subagent did is left out (subagents=none)"
        )
        return
    data: Body = {"kind": "subagent"}
    if reason := word(shown.get("taskDescription")):
        data["spawn_reason"] = reason
    if kind:
        data |= {"tooling_scope": kind, "subagent_type": kind}
    child = parent.below(kind, None, kind or "subagent")
    child.span = draft.start_span(data, child.prompter, ts=ts, call=call)
    if draft.subagents == "inline":
        _tell(child, shown)
    ended = kept(shown, "status", "terminateReason", "executionSummary")
    draft.end_span(child.span, ended, ts=ts, call=call)


def _tell(child: Strand, shown: Body) -> None:
    if prompt := word(shown.get("taskPrompt")):
        child.say("user", prompt, child.prompter)
    calls = shown.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        child.speak(None)
        given = call.get("args")
        tool = word(call.get("name")) or "tool"
        key = child.call(word(call.get("callId")), tool, {} if given is None else given)
        parts = parts_in(call.get("responseParts"))
        answer = next((found for part in parts if (found := answer_in(part))), None)
        result, status = word(call.get("result")) or word(call.get("error")), call.get("status")
        if answer is not None:
            output, failed = output_of(answer, [])
            child.answer(key, output, facts=facts_of(status, failed))
        elif result is not None:
            child.answer(
                key, result, facts=facts_of({"failed": "error"}.get(str(status), status), False)
            )
