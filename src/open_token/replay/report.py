"""What a run came to: for people, for scripts, and as JUnit for a CI. The same run gives the same
bytes."""

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from open_token.replay.matching import Difference
from open_token.replay.playing import Run
from open_token.replay.recording import Step

_AROUND = 60
_BAD_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535, *range(55296, 57344)))

Mask = Callable[[str], str]


class Parting(msgspec.Struct, frozen=True):
    """Where a run left its recording first: the step, what of it differs, and both sides of that
    place."""

    step: int | None
    seq: int | None
    lane: str
    where: str
    recorded: str
    given: str


class Report(msgspec.Struct, frozen=True):
    """A whole run."""

    steps: int
    served: int
    requests: int
    repeated: int
    aside: int
    missed: int
    is_complete: bool
    parting: Parting | None
    command: int | None = None
    """How the command ended, where there was one."""

    @property
    def is_same(self) -> bool:
        """Whether the run was the recorded one."""
        return self.parting is None and self.is_complete


def report_of(run: Run, mask: Mask, command: int | None = None) -> Report:
    """The report of a run; texts are masked before they are shown."""
    outcomes = [verdict.outcome for verdict in run.verdicts]
    return Report(
        steps=len(run.recording.steps),
        served=run.served,
        requests=len(outcomes),
        repeated=outcomes.count("repeated"),
        aside=outcomes.count("aside"),
        missed=outcomes.count("missed"),
        is_complete=run.is_complete,
        parting=_parting(run, mask),
        command=command,
    )


def _parting(run: Run, mask: Mask) -> Parting | None:
    verdict, unasked = run.parted, run.unasked
    if verdict is not None and verdict.parted is not None:
        return _told(verdict.step, verdict.parted, mask)
    if unasked is not None:
        wanted = unasked.prompts[0] if unasked.prompts else ""
        return _told(unasked, Difference("it was never asked for", wanted, ""), mask)
    return None


def _told(step: Step | None, parted: Difference, mask: Mask) -> Parting:
    recorded, given = around(mask(parted.recorded), mask(parted.given))
    number, seq, lane = (step.number, step.seq, step.lane) if step else (None, None, "")
    return Parting(number, seq, lane, parted.where, recorded, given)


def around(recorded: str, given: str) -> tuple[str, str]:
    """Both texts near the first place where they differ."""
    both = zip(recorded, given, strict=False)
    place = next(
        (place for place, (one, other) in enumerate(both) if one != other),
        min(len(recorded), len(given)),
    )
    start = max(0, place - _AROUND)
    return _cut(recorded, start), _cut(given, start)


def _cut(text: str, start: int) -> str:
    end = start + 2 * _AROUND
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


def as_object(report: Report, name: str) -> dict[str, Any]:
    """The report for scripts."""
    told = msgspec.to_builtins(report)
    return {"schema": "open-token/replay/1", "source": name, "same": report.is_same, **told}


def as_junit(report: Report, run: Run, name: str) -> bytes:
    """The report as JUnit: one case a step, and one for a command that failed though it did not
    part."""
    parting = report.parting
    cases = [_case(step, run, parting) for step in run.recording.steps]
    if parting is not None and parting.step is None:
        cases.append(
            f'  <testcase classname="replay" name="after the last step">{_failure(parting)}</testcase>'
        )
    if report.command and parting is None:
        told = quoteattr(f"it ended with {report.command}")
        cases.append(
            f'  <testcase classname="replay" name="the command"><failure message={told}/></testcase>'
        )
    failed = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="0" skipped="{skipped}"'
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name={quoteattr(_clean(name))} {counts}>\n'
    return (head + "\n".join(cases) + "\n</testsuite>\n").encode()


def _case(step: Step, run: Run, parting: Parting | None) -> str:
    lane = f" ({step.lane})" if step.lane else ""
    opening = (
        f'  <testcase classname="replay" name={quoteattr(_clean(f"step {step.number}{lane}"))}'
    )
    if parting is not None and parting.step == step.number:
        return f"{opening}>{_failure(parting)}</testcase>"
    return (
        f"{opening}/>"
        if run.was_served(step)
        else f'{opening}><skipped message="not reached"/></testcase>'
    )


def _failure(parting: Parting) -> str:
    body = (
        f"recorded: {parting.recorded}\ngiven:    {parting.given}"
        if parting.recorded or parting.given
        else ""
    )
    return f"<failure message={quoteattr(_clean(parting.where))}>{escape(_clean(body))}</failure>"


def _clean(text: str) -> str:
    """Text without what XML cannot hold."""
    return text.translate(_BAD_XML)
