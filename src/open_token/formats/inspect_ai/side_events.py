"""What Inspect AI wrote down beside the talk, as annotations."""

from typing import Any

from open_token.formats.inspect_ai.messages import Thread
from open_token.formats.shared.fields import pick_fields
from open_token.jsontools.timestamps import to_utc

Body = dict[str, Any]
ASIDES = {
    "error": "error",
    "sample_limit": "stop",
    "interrupt": "interrupted",
    "compaction": "compaction",
    "info": "notice",
    "logger": "notice",
    "input": "notice",
    "approval": "notice",
    "score": "outcome",
}
"""The events that are told, and the kinds of their annotations."""
CONSUMED = ("sample_init", "begin", "end")
_FIELDS = (
    "source",
    "interrupted",
    "tokens_before",
    "tokens_after",
    "data",
    "message",
    "limit",
    "input",
    "approver",
    "decision",
    "explanation",
    "type",
    "score",
    "scorer",
    "intermediate",
)


def aside(event: Body, kind: str, thread: Thread, scored: bool) -> None:
    """Tell an event that is no part of the talk; the scores of a finished sample are told at its
    end."""
    if kind == "score" and scored and event.get("intermediate") is not True:
        return
    data: Body = {"kind": ASIDES[kind]} | ({"subtype": kind} if ASIDES[kind] == "notice" else {})
    data |= pick_fields(event, *_FIELDS)
    if isinstance(error := event.get("error"), dict):
        data |= pick_fields(error, "message", "traceback")
    if isinstance(call := event.get("call"), dict):
        data |= {"native_call_id": call.get("id"), "tool_name": call.get("function")}
    thread.draft.add_annotation(
        data, actor=thread.runtime, ts=to_utc(event.get("timestamp")), span=thread.span
    )
