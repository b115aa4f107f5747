"""OT104, OT403, OT407, OT413 and OT501 to OT704: order, calls, spans, links and actors of events."""

import re
from typing import Any

from open_token.integrity.strict_reader import ReportProblem
from open_token.jsontools.strict import describe_key, describe_value
from open_token.validation.findings import Check

CHECKS = {
    "OT501": Check(
        "error",
        "A tool_use and a tool_result have a call_id",
        "it pairs them",
        "give both events of a call the same links.call_id",
    ),
    "OT502": Check(
        "error",
        "tool_use.content.data has a tool_name that is a string",
        "the specification requires it",
        "add the name of the tool",
    ),
    "OT503": Check(
        "error",
        "tool_use.content.data has arguments that are an object or an array",
        "the specification requires it",
        'add the arguments; text that is neither goes into {"raw": "..."}',
    ),
    "OT504": Check(
        "error",
        "Every call_id is used by one tool_use",
        "otherwise its result is ambiguous",
        "give each call a separate call_id",
    ),
    "OT505": Check(
        "error",
        "A call has one result",
        "the specification requires one tool_result per call",
        "keep the first result; move a repeated one into an annotation",
    ),
    "OT506": Check(
        "error",
        "Every call has a result",
        "a call without a result looks as if it were still running",
        'add a tool_result with data {"missing_result": true}',
    ),
    "OT507": Check(
        "error",
        "A result follows its call",
        "causal order must be preserved",
        "put the events into the order in which they happened",
    ),
    "OT508": Check(
        "warning",
        "Every result has a call",
        "the source does not contain the call, and an annotation says so",
        "nothing to fix, unless the call can be found",
    ),
    "OT509": Check(
        "error",
        "A result without its call is explained by an annotation",
        "otherwise a gap in the source cannot be distinguished from a damaged export",
        "add an annotation whose links.parent_id is the result, or restore the call",
    ),
    "OT510": Check(
        "error",
        "A tool_result contains the output of the tool and nothing else",
        "readers treat all of it as tool output",
        "put the output into text or data, and facts about it into an annotation",
    ),
    "OT511": Check(
        "warning",
        'A missing result is exactly {"missing_result": true} as application/json',
        "the specification defines this form",
        "omit other keys",
    ),
    "OT601": Check(
        "error",
        "A span_start and a span_end have a span_id",
        "it pairs them",
        "add links.span_id",
    ),
    "OT602": Check(
        "error",
        "Every span is opened once",
        "otherwise the span of an event is ambiguous",
        "give each span a separate span_id",
    ),
    "OT603": Check(
        "error",
        "A span_end closes an open span",
        "otherwise the content of the span is unknown",
        "put the span_start before it, or remove the span_end",
    ),
    "OT604": Check(
        "error",
        "Every span is closed",
        "otherwise the end of the span is unknown",
        "add the span_end",
    ),
    "OT605": Check(
        "error",
        "span_id refers to a span that was opened before",
        "the events of a subagent belong inside its span",
        "put the span_start before the event, or remove the link",
    ),
    "OT606": Check(
        "warning",
        "No event of a span follows its end",
        "the events of a subagent belong inside its span",
        "move the span_end after the event",
    ),
    "OT701": Check(
        "error",
        "links is an object of strings",
        "the specification defines it so",
        "write each link as a string",
    ),
    "OT702": Check(
        "warning",
        "parent_id and replies_to refer to events of the export",
        "a link without a target misleads readers",
        "remove the link, or restore the event",
    ),
    "OT703": Check(
        "warning",
        "Links have the forms evt_######, call_###### and span_######",
        "the specification defines these forms",
        "use the ids of the export; a call id of the runtime goes into data.native_call_id",
    ),
    "OT704": Check(
        "warning",
        "links has only keys of the specification",
        "other readers do not understand additional keys",
        "move them into an annotation event",
    ),
}

_FORMS = {
    "parent_id": re.compile(r"evt_\d{6,}", re.ASCII),
    "replies_to": re.compile(r"evt_\d{6,}", re.ASCII),
    "call_id": re.compile(r"call_\d{6,}", re.ASCII),
    "span_id": re.compile(r"span_\d{6,}", re.ASCII),
}
_KIND_OF = {
    "system": "system",
    "developer": "system",
    "assistant": "model",
    "assistant_thought": "model",
    "tool": "tool",
}
_MISSING = {"mime": "application/json", "data": {"missing_result": True}}

Event = dict[str, Any]


def read_links(event: Event, place: str, report: ReportProblem) -> dict[str, str]:
    """Return the links that are strings; report problems of the others."""
    links = event.get("links", {})
    if not isinstance(links, dict):
        report("OT701", f"{place}.links", f"{describe_value(links)} is not an object")
        return {}
    valid: dict[str, str] = {}
    for name, target in links.items():
        where = f"{place}.links{describe_key(name)}"
        if name not in _FORMS:
            report("OT704", where, "a key that the spec does not know")
        elif not isinstance(target, str) or not target:
            report(
                "OT701", where, f"{describe_value(target)} is not a string with characters in it"
            )
        else:
            valid[name] = target
            if not _FORMS[name].fullmatch(target):
                report("OT703", where, f"{describe_value(target)} does not have the usual form")
    return valid


class Order:
    """seq counts up without gaps, and ids are unique."""

    def __init__(self) -> None:
        self._last = 0
        self.ids: set[str] = set()

    def take(self, event: Event, place: str, report: ReportProblem) -> None:
        seq = event.get("seq")
        if type(seq) is not int or seq < 1:
            report("OT104", f"{place}.seq", f"{describe_value(seq)} is not a number from 1 on")
            seq = self._last + 1
        elif seq != self._last + 1:
            after = f"follows {describe_value(self._last)}" if self._last else "is the first"
            report(
                "OT104",
                f"{place}.seq",
                f"{describe_value(seq)} {after}; {describe_value(self._last + 1)} was expected",
            )
        self._last = seq
        event_id = event.get("id")
        if isinstance(event_id, str):
            if event_id in self.ids:
                report("OT403", f"{place}.id", f"{describe_value(event_id)} is used twice")
            self.ids.add(event_id)


class Calls:
    """Each call occurs once, followed by exactly one result."""

    def __init__(self) -> None:
        self._uses: dict[str, str] = {}
        self._results: dict[str, tuple[str, str]] = {}
        self._explained: set[str] = set()

    def take(self, event: Event, links: dict[str, str], place: str, report: ReportProblem) -> None:
        kind = event.get("type")
        if kind == "annotation" and "parent_id" in links:
            self._explained.add(links["parent_id"])
        if kind not in ("tool_use", "tool_result"):
            return
        if kind == "tool_use":
            _check_tool_use(event, place, report)
        else:
            _check_tool_result(event, place, report)
        if "call_id" not in links:
            report("OT501", f"{place}.links.call_id", f"a {kind} without a call_id")
        elif kind == "tool_use":
            self._use(links["call_id"], place, report)
        else:
            self._result(links["call_id"], event, place, report)

    def _use(self, call: str, place: str, report: ReportProblem) -> None:
        if call in self._uses:
            report("OT504", f"{place}.links.call_id", f"call {describe_value(call)} is made twice")
        elif call in self._results:
            report(
                "OT507",
                f"{place}.links.call_id",
                f"call {describe_value(call)} was answered at {self._results[call][0]} already",
            )
        self._uses.setdefault(call, place)

    def _result(self, call: str, event: Event, place: str, report: ReportProblem) -> None:
        if call in self._results:
            report(
                "OT505", f"{place}.links.call_id", f"call {describe_value(call)} is answered twice"
            )
        else:
            event_id = event.get("id")
            self._results[call] = (place, event_id if isinstance(event_id, str) else "")

    def finish(self, report: ReportProblem) -> None:
        for call, place in self._uses.items():
            if call not in self._results:
                report("OT506", place, f"call {describe_value(call)} has no result")
        for call, (place, event_id) in self._results.items():
            if call in self._uses:
                continue
            # A source may begin after the call. That is no error if an annotation says so.
            is_explained = event_id in self._explained
            check = "OT508" if is_explained else "OT509"
            report(check, place, f"call {describe_value(call)} was never made")


def _check_tool_use(event: Event, place: str, report: ReportProblem) -> None:
    content = event.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    data = data if isinstance(data, dict) else {}
    if not isinstance(data.get("tool_name"), str) or not data["tool_name"]:
        report("OT502", f"{place}.content.data.tool_name", "there is no name of a tool")
    if not isinstance(data.get("arguments"), dict | list):
        report(
            "OT503",
            f"{place}.content.data.arguments",
            f"{describe_value(data.get('arguments'))} is neither object nor array",
        )


def _check_tool_result(event: Event, place: str, report: ReportProblem) -> None:
    content = event.get("content")
    if not isinstance(content, dict):
        return
    data = content.get("data")
    if "text" not in content and "data" not in content:
        report("OT510", f"{place}.content", "neither text nor data")
    elif "text" in content and "data" in content and not _is_truncation(data):
        # A result is text or data; only the facts about a truncation may stand beside a text.
        report("OT510", f"{place}.content", "both text and data")
    if isinstance(data, dict) and data.get("missing_result") is True and content != _MISSING:
        report("OT511", f"{place}.content", "a missing result with something more")


def _is_truncation(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and data.get("truncated") is True
        and not data.keys() - {"truncated", "original_length"}
    )


class Spans:
    """Each span is opened once and closed once, with its events in between."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._closed: set[str] = set()

    def take(self, event: Event, links: dict[str, str], place: str, report: ReportProblem) -> None:
        kind = event.get("type")
        span = links.get("span_id")
        where = f"{place}.links.span_id"
        if span is None:
            if kind in ("span_start", "span_end"):
                report("OT601", where, f"a {kind} without a span_id")
        elif kind == "span_start":
            if span in self._open or span in self._closed:
                report("OT602", where, f"span {describe_value(span)} was opened before")
            self._open[span] = place
        elif kind == "span_end":
            if span not in self._open:
                report("OT603", where, f"span {describe_value(span)} is not open")
            self._open.pop(span, None)
            self._closed.add(span)
        elif span not in self._open:
            if span in self._closed:
                report("OT606", where, f"span {describe_value(span)} has ended")
            else:
                report("OT605", where, f"span {describe_value(span)} was not opened before")

    def finish(self, report: ReportProblem) -> None:
        for span, place in self._open.items():
            report("OT604", place, f"span {describe_value(span)} is never closed")


class Targets:
    """Links name events and actor ids name participants; both may follow, so the end decides."""

    def __init__(self) -> None:
        self._events: dict[str, str] = {}
        self._actors: dict[str, str] = {}
        self._roles: dict[tuple[str, str], str] = {}

    def take(self, event: Event, links: dict[str, str], place: str) -> None:
        # Only the first place of each target is stored: a report of it is enough, and memory does
        # not grow with the number of events.
        for name in ("parent_id", "replies_to"):
            if name in links:
                target = links[name]
                self._events.setdefault(target, f"{place}.links.{name}")
        actor = event.get("actor_id")
        if not isinstance(actor, str):
            return
        self._actors.setdefault(actor, f"{place}.actor_id")
        role = event.get("role")
        if isinstance(role, str) and role in _KIND_OF:
            self._roles.setdefault((actor, role), f"{place}.role")

    def finish(self, ids: set[str], participants: Any, report: ReportProblem) -> None:
        for target, place in self._events.items():
            if target not in ids:
                report("OT702", place, f"there is no event {describe_value(target)}")
        if not isinstance(participants, list):
            return
        kinds = {}
        for participant in participants:
            if isinstance(participant, dict) and isinstance(participant.get("actor_id"), str):
                kinds[participant["actor_id"]] = participant.get("kind")
        for actor, place in self._actors.items():
            if actor not in kinds:
                report("OT407", place, f"there is no participant {describe_value(actor)}")
        for (actor, role), place in self._roles.items():
            if kinds.get(actor, _KIND_OF[role]) != _KIND_OF[role]:
                report(
                    "OT413",
                    place,
                    f"the role is {role}, but {describe_value(actor)} is {describe_value(kinds[actor])}",
                )
