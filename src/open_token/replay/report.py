"""The report on a replay: for people, as JSON, and as JUnit for CI. It is deterministic."""

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from open_token.replay.matching import RequestDifference
from open_token.replay.player import ReplaySession
from open_token.replay.recording import Step

_CONTEXT_LENGTH = 60
# Code points that XML 1.0 does not allow.
_INVALID_XML = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000))
)

Mask = Callable[[str], str]


class Divergence(msgspec.Struct, frozen=True):
    """Where a replay first diverged: the step, what of it differs, and both sides of it."""

    step: int | None
    seq: int | None
    lane: str
    where: str
    recorded: str
    given: str


class Report(msgspec.Struct, frozen=True):
    """The result of a replay."""

    steps: int
    served: int
    requests: int
    repeated: int
    aside: int
    missed: int
    is_complete: bool
    divergence: Divergence | None
    command: int | None = None
    """The exit code of the command, where there was one."""

    @property
    def is_same(self) -> bool:
        """Whether the replay did what was recorded."""
        return self.divergence is None and self.is_complete


def build_report(session: ReplaySession, mask: Mask, command: int | None = None) -> Report:
    """Return the report of a session; `mask` redacts texts before they are shown."""
    outcomes = [verdict.outcome for verdict in session.verdicts]
    return Report(
        steps=len(session.recording.steps),
        served=session.served,
        requests=len(outcomes),
        repeated=outcomes.count("repeated"),
        aside=outcomes.count("aside"),
        missed=outcomes.count("missed"),
        is_complete=session.is_complete,
        divergence=_find_divergence(session, mask),
        command=command,
    )


def _find_divergence(session: ReplaySession, mask: Mask) -> Divergence | None:
    miss = session.first_miss
    if miss is not None and miss.difference is not None:
        return _build_divergence(miss.step, miss.difference, mask)
    unserved = session.first_unserved
    if unserved is not None:
        prompt = unserved.prompts[0] if unserved.prompts else ""
        difference = RequestDifference("it was never requested", prompt, "")
        return _build_divergence(unserved, difference, mask)
    return None


def _build_divergence(step: Step | None, difference: RequestDifference, mask: Mask) -> Divergence:
    recorded, given = cut_around_difference(mask(difference.recorded), mask(difference.given))
    return Divergence(
        step=step.number if step else None,
        seq=step.seq if step else None,
        lane=step.lane if step else "",
        where=difference.where,
        recorded=recorded,
        given=given,
    )


def cut_around_difference(recorded: str, given: str) -> tuple[str, str]:
    """Return both texts near the first position where they differ."""
    position = min(len(recorded), len(given))
    for index, (one, other) in enumerate(zip(recorded, given, strict=False)):
        if one != other:
            position = index
            break
    start = max(0, position - _CONTEXT_LENGTH)
    return _cut(recorded, start), _cut(given, start)


def _cut(text: str, start: int) -> str:
    end = start + 2 * _CONTEXT_LENGTH
    prefix = "..." if start else ""
    suffix = "..." if end < len(text) else ""
    return prefix + text[start:end] + suffix


def to_json_object(report: Report, name: str) -> dict[str, Any]:
    """Return the report as a JSON object."""
    fields = msgspec.to_builtins(report)
    return {"schema": "open-token/replay/1", "source": name, "same": report.is_same, **fields}


def to_junit(report: Report, session: ReplaySession, name: str) -> bytes:
    """Return the report as JUnit XML: one test case per step, and one for a failed command."""
    divergence = report.divergence
    cases = [_render_case(step, session, divergence) for step in session.recording.steps]
    if divergence is not None and divergence.step is None:
        failure = _render_failure(divergence)
        cases.append(
            f'  <testcase classname="replay" name="after the last step">{failure}</testcase>'
        )
    if report.command and divergence is None:
        message = quoteattr(f"exit code {report.command}")
        cases.append(
            '  <testcase classname="replay" name="the command">'
            f"<failure message={message}/></testcase>"
        )
    failures = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuite name={quoteattr(_clean_xml(name))} {counts}>",
        *cases,
        "</testsuite>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _render_case(step: Step, session: ReplaySession, divergence: Divergence | None) -> str:
    lane = f" ({step.lane})" if step.lane else ""
    name = quoteattr(_clean_xml(f"step {step.number}{lane}"))
    opening = f'  <testcase classname="replay" name={name}'
    if divergence is not None and divergence.step == step.number:
        return f"{opening}>{_render_failure(divergence)}</testcase>"
    if session.was_served(step):
        return f"{opening}/>"
    return f'{opening}><skipped message="not reached"/></testcase>'


def _render_failure(divergence: Divergence) -> str:
    body = ""
    if divergence.recorded or divergence.given:
        body = f"recorded: {divergence.recorded}\ngiven:    {divergence.given}"
    message = quoteattr(_clean_xml(divergence.where))
    return f"<failure message={message}>{escape(_clean_xml(body))}</failure>"


def _clean_xml(text: str) -> str:
    return text.translate(_INVALID_XML)
