"""Validate an export against the spec: one small check per rule, each with an id and a place."""

from collections.abc import Iterable
from typing import Any, cast

from open_token.integrity.strict_reader import (
    BROKEN,
    NdjsonReader,
    is_stream,
    iter_lines,
    read_document,
)
from open_token.integrity.verify import HashChecker
from open_token.jsontools.canonical import CanonicalError, encode_canonical
from open_token.jsontools.strict import describe_value
from open_token.model.document import Event
from open_token.native.compression import expand_event
from open_token.validation import document, events, file, integrity, links
from open_token.validation.document import check_frame
from open_token.validation.events import EVENT_CHECKS
from open_token.validation.findings import Check, Findings, Problem
from open_token.validation.integrity import check_integrity
from open_token.validation.links import Calls, Order, Spans, Targets, read_links
from open_token.validation.values import check_values, is_too_deep

__all__ = ["CHECKS", "Check", "Problem", "validate", "validate_bytes", "validate_lines"]

_ALL_CHECKS = {
    **file.CHECKS,
    **document.CHECKS,
    **events.CHECKS,
    **links.CHECKS,
    **integrity.CHECKS,
}
CHECKS: dict[str, Check] = dict(sorted(_ALL_CHECKS.items()))
"""Every check by its id, in order."""


def validate(document: Any) -> list[Problem]:
    """Return the problems of a parsed document; an empty list if it is valid."""
    findings = Findings()
    _check_document(document, findings, EventChecks(findings, in_memory=True))
    return findings.problems(CHECKS)


def validate_bytes(raw: bytes) -> list[Problem]:
    """Return the problems of the bytes of an export, JSON or NDJSON, which are parsed strictly."""
    if is_stream(raw):
        return validate_lines(iter_lines(raw))
    findings = Findings()
    document = read_document(raw, findings.add)
    if document is not BROKEN:
        _check_document(document, findings, EventChecks(findings))
    return findings.problems(CHECKS)


def validate_lines(lines: Iterable[bytes]) -> list[Problem]:
    """Return the problems of an NDJSON export; memory grows with the number of events only."""
    findings = Findings()
    frame_findings = Findings()
    reader = NdjsonReader(lines, findings.add)
    checks = EventChecks(findings)
    for event in reader:
        checks.take(event)
    if reader.has_header:
        check_frame(reader.document, True, frame_findings.add)
    checks.finish(reader.document)
    return frame_findings.problems(CHECKS) + findings.problems(CHECKS)


def _check_document(document: Any, findings: Findings, checks: "EventChecks") -> None:
    report = findings.add
    if not isinstance(document, dict):
        report("OT101", "document", f"{describe_value(document)} is not an object")
        return
    if checks.in_memory:
        _check_frame_values(document, findings)
    check_frame(document, False, report)
    events = document.get("events")
    if isinstance(events, list):
        for event in events:
            checks.take(event)
    else:
        report("OT108", "events", f"{describe_value(events)} is not an array")
    checks.finish(document)


def _check_frame_values(document: dict[str, Any], findings: Findings) -> None:
    for name, value in document.items():
        if name == "events" and isinstance(value, list):
            continue
        try:
            is_sound = not is_too_deep(encode_canonical(value), value, 1)
        except CanonicalError:
            is_sound = False
        if not is_sound:
            place = name if isinstance(name, str) else "document"
            check_values(value, place, 1, findings.add)


class EventChecks:
    """Runs every check on the events, one by one, in one pass.

    `in_memory` is set for values that did not come from the strict parser, which reports invalid
    values itself.
    """

    def __init__(self, findings: Findings, in_memory: bool = False) -> None:
        self._report = findings.add
        self.in_memory = in_memory
        self._order = Order()
        self._calls = Calls()
        self._spans = Spans()
        self._targets = Targets()
        self._hashes = HashChecker()
        self._count = 0
        self._reasoning_place = ""

    def take(self, event: Any) -> None:
        """Check the next event."""
        place = f"events[{self._count}]"
        self._count += 1
        encoded = self._hashes.add(event)
        if self.in_memory and (encoded is None or is_too_deep(encoded, event, 2)):
            check_values(event, place, 2, self._report)
        if not isinstance(event, dict):
            self._report("OT401", place, f"{describe_value(event)} is not an object")
            return
        # Compressed native data is checked as the values that it stands for.
        expanded: Any = expand_event(cast(Event, event))
        for check in EVENT_CHECKS:
            check(expanded, place, self._report)
        self._order.take(event, place, self._report)
        links = read_links(event, place, self._report)
        self._calls.take(event, links, place, self._report)
        self._spans.take(event, links, place, self._report)
        self._targets.take(event, links, place)
        if not self._reasoning_place and _is_reasoning_text(event):
            self._reasoning_place = place

    def finish(self, document: dict[str, Any]) -> None:
        """Run the checks that need the whole document, after the last event."""
        self._calls.finish(self._report)
        self._spans.finish(self._report)
        self._targets.finish(self._order.ids, document.get("participants"), self._report)
        if self._reasoning_place and _denies_reasoning(document.get("conversation")):
            self._report(
                "OT212",
                f"{self._reasoning_place}.content",
                "hidden reasoning is present although internal_availability is unavailable",
            )
        check_integrity(document, self._hashes, self._report)


def _is_reasoning_text(event: dict[str, Any]) -> bool:
    if event.get("role") != "assistant_thought":
        return False
    content = event.get("content")
    return isinstance(content, dict) and bool(content.get("text"))


def _denies_reasoning(conversation: Any) -> bool:
    if not isinstance(conversation, dict):
        return False
    return conversation.get("internal_availability") == "unavailable"
