"""OT401 to OT431, OT801 and OT802: one event, its content, and redaction markers in it."""

import re
from collections.abc import Callable
from typing import Any

from open_token.integrity.strict_reader import ReportProblem
from open_token.jsontools.strict import describe_key, describe_value
from open_token.jsontools.walk import iter_strings
from open_token.model.document import EVENT_TYPES, MIMES, ROLES, VISIBILITIES
from open_token.redaction.markers import has_malformed_marker
from open_token.validation.document import check_unknown_keys, is_timestamp
from open_token.validation.findings import Check

CHECKS = {
    "OT401": Check(
        "error",
        "An event is an object",
        "the specification defines it so",
        "write an object with id, seq, type and so on",
    ),
    "OT402": Check(
        "error",
        "id has the form evt_######",
        "links and proofs refer to events by it",
        "use evt_000001, evt_000002 and so on",
    ),
    "OT403": Check(
        "error",
        "Every event id is unique",
        "otherwise a link is ambiguous",
        "give each event a separate id",
    ),
    "OT404": Check(
        "error",
        "ts is an RFC 3339 time in UTC",
        "times must mean the same everywhere",
        "write it as 2026-01-31T00:00:00Z, or omit it; never guess",
    ),
    "OT405": Check(
        "error",
        "type is one of the six event types",
        "readers cannot process an event of another type",
        "use message, tool_use, tool_result, span_start, span_end or annotation",
    ),
    "OT406": Check(
        "error",
        "An event has an actor_id",
        "every event has an actor",
        "add the actor_id of a participant",
    ),
    "OT407": Check(
        "error",
        "actor_id refers to a participant",
        "attribution must be preserved",
        "add the participant, or correct the actor_id",
    ),
    "OT408": Check(
        "error",
        "visibility is public, internal or metadata",
        "it determines who may see the event",
        "use one of the three",
    ),
    "OT409": Check(
        "error",
        "role is one of the six roles",
        "the role carries authority; an unknown role carries none",
        "use system, developer, user, assistant, assistant_thought or tool",
    ),
    "OT410": Check(
        "error",
        "A message, a tool_use and a tool_result have a role",
        "without it the speaker is unknown",
        "add the role; only spans and annotations may omit it",
    ),
    "OT411": Check(
        "error",
        "role matches type: assistant for tool_use, tool for tool_result, and never tool for a message",
        "tool output must be isolated in tool_result events",
        "correct the role, or make the event a tool_result",
    ),
    "OT412": Check(
        "warning",
        "An event has only keys of the specification",
        "other readers do not understand additional keys",
        "move them into an annotation event",
    ),
    "OT413": Check(
        "warning",
        "role matches the kind of the actor",
        "attribution must be preserved: model output belongs to a model",
        "correct the actor_id or the participant's kind",
    ),
    "OT414": Check(
        "warning",
        "Developer messages, hidden reasoning and tool events are internal",
        "the specification maps them so; public means that the person saw it",
        "set visibility to internal",
    ),
    "OT421": Check(
        "error",
        "content is an object, and a message or tool event has one",
        "the content is what was said or done",
        "write an object with mime and text or data",
    ),
    "OT422": Check(
        "error",
        "content has only the keys mime, text and data",
        "the specification allows no others",
        "move them into data or into an annotation event",
    ),
    "OT423": Check(
        "error",
        "mime is text/plain or application/json",
        "it tells a reader how to interpret the content",
        "use text/plain for text, application/json for data",
    ),
    "OT424": Check(
        "error", "text is a string", "readers display it as text", "write a string, or use data"
    ),
    "OT425": Check(
        "warning",
        "Content with text is text/plain",
        "the specification recommends it",
        "set mime to text/plain",
    ),
    "OT426": Check(
        "warning",
        "Content with only data is application/json",
        "the specification recommends it",
        "set mime to application/json",
    ),
    "OT427": Check(
        "warning",
        "Content has text or data",
        "an event without either has no content",
        "add the text or the data, or omit the event",
    ),
    "OT431": Check(
        "error",
        "usage is an object of non-negative integers",
        "counts are summed",
        "write tokens as integers, or omit usage",
    ),
    "OT801": Check(
        "warning",
        "A truncated text is marked as the specification defines",
        "a reader must know how much is missing",
        'keep "…" in the text and set original_length to the number of characters before truncation',
    ),
    "OT802": Check(
        "warning",
        "Redaction markers have the form [REDACTED:type:hash8]",
        "tools find and compare masked values by this form",
        "write the marker with a type and eight hex digits; text that only mentions markers may stay",
    ),
}

_KEYS = ("id", "seq", "ts", "type", "actor_id", "visibility", "role", "content", "links", "usage")
_CONTENT = ("mime", "text", "data")
_TYPES_WITH_ROLE = ("message", "tool_use", "tool_result")
_EVENT_ID = re.compile(r"evt_\d{6,}", re.ASCII)

Event = dict[str, Any]


def check_id(event: Event, place: str, report: ReportProblem) -> None:
    if not isinstance(event.get("id"), str) or not _EVENT_ID.fullmatch(event["id"]):
        report(
            "OT402",
            f"{place}.id",
            f"{describe_value(event.get('id'))} does not have the form evt_######",
        )


def check_ts(event: Event, place: str, report: ReportProblem) -> None:
    if "ts" in event and not is_timestamp(event["ts"], in_utc=True):
        report("OT404", f"{place}.ts", "not an RFC 3339 time in UTC")


def check_type(event: Event, place: str, report: ReportProblem) -> None:
    if event.get("type") not in EVENT_TYPES:
        report(
            "OT405",
            f"{place}.type",
            f"{describe_value(event.get('type'))} is none of {', '.join(EVENT_TYPES)}",
        )


def check_actor(event: Event, place: str, report: ReportProblem) -> None:
    if not isinstance(event.get("actor_id"), str):
        report(
            "OT406", f"{place}.actor_id", f"{describe_value(event.get('actor_id'))} is no actor_id"
        )


def check_visibility(event: Event, place: str, report: ReportProblem) -> None:
    visibility = event.get("visibility")
    role = event.get("role")
    if visibility not in VISIBILITIES:
        report(
            "OT408",
            f"{place}.visibility",
            f"{describe_value(visibility)} is none of {', '.join(VISIBILITIES)}",
        )
    elif visibility == "public" and role in ("developer", "assistant_thought"):
        report("OT414", f"{place}.visibility", f"{role} is public")
    elif visibility == "public" and event.get("type") in ("tool_use", "tool_result"):
        report("OT414", f"{place}.visibility", f"{event['type']} is public")


def check_role(event: Event, place: str, report: ReportProblem) -> None:
    kind = event.get("type")
    role = event.get("role")
    where = f"{place}.role"
    if "role" not in event:
        if kind in _TYPES_WITH_ROLE:
            report("OT410", where, f"a {kind} without a role")
        return
    if role not in ROLES:
        report("OT409", where, f"{describe_value(role)} is none of {', '.join(ROLES)}")
        return
    # Models call tools and tools answer: the type of such an event decides its role.
    is_wrong_call = kind == "tool_use" and role != "assistant"
    is_wrong_result = kind == "tool_result" and role != "tool"
    if kind == "message" and role == "tool":
        report("OT411", where, "a message has the role tool")
    elif is_wrong_call or is_wrong_result:
        report("OT411", where, f"a {kind} has the role {role}")


def check_keys(event: Event, place: str, report: ReportProblem) -> None:
    check_unknown_keys(event, _KEYS, "OT412", place, report)


def check_content(event: Event, place: str, report: ReportProblem) -> None:
    content = event.get("content")
    if not isinstance(content, dict):
        if "content" in event or event.get("type") in _TYPES_WITH_ROLE:
            report("OT421", f"{place}.content", f"{describe_value(content)} is not an object")
        return
    place = f"{place}.content"
    check_unknown_keys(content, _CONTENT, "OT422", place, report)
    if content.get("mime") not in MIMES and (content or event.get("type") in _TYPES_WITH_ROLE):
        report(
            "OT423",
            f"{place}.mime",
            f"{describe_value(content.get('mime'))} is none of {', '.join(MIMES)}",
        )
    elif "text" in content and content["mime"] != "text/plain":
        report("OT425", f"{place}.mime", "text that is not text/plain")
    elif "data" in content and "text" not in content and content["mime"] != "application/json":
        report("OT426", f"{place}.mime", "data that is not application/json")
    if not isinstance(content.get("text", ""), str):
        report("OT424", f"{place}.text", f"{describe_value(content['text'])} is not a string")
    if event.get("type") == "message" and "text" not in content and "data" not in content:
        report("OT427", place, "neither text nor data")


def check_usage(event: Event, place: str, report: ReportProblem) -> None:
    usage = event.get("usage", {})
    if not isinstance(usage, dict):
        report("OT431", f"{place}.usage", f"{describe_value(usage)} is not an object")
        return
    for name, count in usage.items():
        if str(name).endswith("_tokens") and (type(count) is not int or count < 0):
            report(
                "OT431",
                f"{place}.usage{describe_key(name)}",
                f"{describe_value(count)} is not a whole number from 0 on",
            )


def check_truncation(event: Event, place: str, report: ReportProblem) -> None:
    content = event.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    text = content.get("text") if isinstance(content, dict) else None
    if not isinstance(data, dict) or data.get("truncated") is not True or not isinstance(text, str):
        return
    length = data.get("original_length")
    if "original_length" in data and (type(length) is not int or length < 0):
        report(
            "OT801",
            f"{place}.content.data.original_length",
            f"{describe_value(length)} is not a number of characters",
        )
    elif type(length) is int and length < len(text):
        report(
            "OT801",
            f"{place}.content.data.original_length",
            f"{describe_value(length)} is less than the text still has",
        )
    elif "…" not in text:
        report("OT801", f"{place}.content.text", "said to be truncated, but there is no … in it")


def check_markers(event: Event, place: str, report: ReportProblem) -> None:
    for text in iter_strings(event.get("content")):
        if has_malformed_marker(text):
            report(
                "OT802",
                f"{place}.content",
                "a redaction marker without a type or without eight hex digits",
            )
            return


EVENT_CHECKS: tuple[Callable[[Event, str, ReportProblem], None], ...] = (
    check_id,
    check_ts,
    check_type,
    check_actor,
    check_visibility,
    check_role,
    check_keys,
    check_content,
    check_usage,
    check_truncation,
    check_markers,
)
