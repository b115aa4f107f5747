"""Checks an export against the spec: one small check per rule, each with an id and a place."""

from collections.abc import Iterable
from typing import Any

from open_token.canonical import CanonicalError, dumps
from open_token.checking import _document, _events, _file, _integrity, _links
from open_token.checking._document import check_frame
from open_token.checking._events import EVENT_CHECKS
from open_token.checking._file import BROKEN, Stream, is_stream, lines_of, read_document
from open_token.checking._findings import Check, Findings, Problem, shown
from open_token.checking._integrity import check_integrity
from open_token.checking._links import Calls, Order, Spans, Targets, links_of
from open_token.checking._reckoning import Reckoning
from open_token.checking._values import check_values, is_too_deep

__all__ = ["CHECKS", "Check", "Problem", "validate", "validate_bytes", "validate_lines"]

CHECKS: dict[str, Check] = dict(
    sorted(
        {
            **_file.CHECKS,
            **_document.CHECKS,
            **_events.CHECKS,
            **_links.CHECKS,
            **_integrity.CHECKS,
        }.items()
    )
)
"""Every check by its id, in order."""


def validate(document: Any) -> list[Problem]:
    """What is wrong with a parsed document; an empty list when nothing is."""
    findings = Findings()
    _check_document(document, findings, Events(findings, in_memory=True))
    return findings.problems(CHECKS)


def validate_bytes(raw: bytes) -> list[Problem]:
    """What is wrong with the bytes of an export, JSON or NDJSON, read strictly."""
    if is_stream(raw):
        return validate_lines(lines_of(raw))
    findings = Findings()
    document = read_document(raw, findings.add)
    if document is not BROKEN:
        _check_document(document, findings, Events(findings))
    return findings.problems(CHECKS)


def validate_lines(lines: Iterable[bytes]) -> list[Problem]:
    """What is wrong with an NDJSON export, read line by line; memory grows with the number of
    events only."""
    found, of_frame = Findings(), Findings()
    stream = Stream(lines, found.add)
    events = Events(found)
    for event in stream:
        events.take(event)
    if stream.has_header:
        check_frame(stream.document, True, of_frame.add)
    events.finish(stream.document)
    return of_frame.problems(CHECKS) + found.problems(CHECKS)


def _check_document(document: Any, findings: Findings, events: "Events") -> None:
    add = findings.add
    if not isinstance(document, dict):
        add("OT101", "document", f"{shown(document)} is not an object")
        return
    if events.in_memory:
        _check_frame_values(document, findings)
    check_frame(document, False, add)
    if isinstance(document.get("events"), list):
        for event in document["events"]:
            events.take(event)
    else:
        add("OT108", "events", f"{shown(document.get('events'))} is not an array")
    events.finish(document)


def _check_frame_values(document: dict[str, Any], findings: Findings) -> None:
    for name, value in document.items():
        if name == "events" and isinstance(value, list):
            continue
        try:
            is_sound = not is_too_deep(dumps(value), value, 1)
        except CanonicalError:
            is_sound = False
        if not is_sound:
            check_values(value, name if isinstance(name, str) else "document", 1, findings.add)


class Events:
    """Runs every check on the events, one by one, in one pass."""

    def __init__(self, findings: Findings, in_memory: bool = False) -> None:
        self._add = findings.add
        self.in_memory = in_memory
        """The values did not come through the strict parser, which tells what is wrong with them
        itself."""
        self._order, self._calls, self._spans, self._targets = Order(), Calls(), Spans(), Targets()
        self._reckoning = Reckoning()
        self._count = 0
        self._words_at = ""

    def take(self, event: Any) -> None:
        """The next event."""
        place = f"events[{self._count}]"
        self._count += 1
        raw = self._reckoning.add(event)
        if self.in_memory and (raw is None or is_too_deep(raw, event, 2)):
            check_values(event, place, 2, self._add)
        if not isinstance(event, dict):
            self._add("OT401", place, f"{shown(event)} is not an object")
            return
        for check in EVENT_CHECKS:
            check(event, place, self._add)
        self._order.take(event, place, self._add)
        links = links_of(event, place, self._add)
        self._calls.take(event, links, place, self._add)
        self._spans.take(event, links, place, self._add)
        self._targets.take(event, links, place)
        if not self._words_at and event.get("role") == "assistant_thought" and _has_words(event):
            self._words_at = place

    def finish(self, document: dict[str, Any]) -> None:
        """After the last event: what only the whole can tell."""
        self._calls.finish(self._add)
        self._spans.finish(self._add)
        self._targets.finish(self._order.ids, document.get("participants"), self._add)
        conversation = document.get("conversation")
        said = conversation.get("internal_availability") if isinstance(conversation, dict) else None
        if self._words_at and said == "unavailable":
            self._add(
                "OT212",
                f"{self._words_at}.content",
                "words of hidden reasoning, which is said to be unavailable",
            )
        check_integrity(document, self._reckoning, self._add)


def _has_words(event: dict[str, Any]) -> bool:
    content = event.get("content")
    return isinstance(content, dict) and bool(content.get("text"))
