"""One run against a recording: which step each request asks for, what is answered, where the run
parts from it."""

import hashlib
import re
import threading
from collections.abc import Iterator
from typing import Literal

import msgspec

from open_token.replay.asked import Answer, Asked, Got, Made
from open_token.replay.matching import Difference, difference, follows
from open_token.replay.offered import as_offered
from open_token.replay.recording import Recording, Step
from open_token.replay.sameness import Sameness, bare, steady
from open_token.replay.stand_in import WORDS, stand_in

_TITLE = re.compile(
    r"title generator|\b(?:generate|create|write|make|suggest)\b[^.\n]{0,60}\btitle\b",
    re.IGNORECASE,
)
_LOOKED_AT = 64
"""Steps that are tried for one request, besides those that come next."""

Outcome = Literal["matched", "repeated", "aside", "missed"]


class Rules(msgspec.Struct, frozen=True):
    """How a run is held against its recording."""

    sameness: Sameness = Sameness()
    any_order: bool = False
    any_results: bool = False
    stub: bool = False
    """Answer what is not recorded with a word instead of an error."""


class Verdict(msgspec.Struct, frozen=True):
    """What one request was."""

    number: int
    wire: str
    outcome: Outcome
    step: Step | None
    """The step that was asked for; of a miss the nearest."""
    answer: Answer
    lacking: tuple[str, ...] = ()
    """Tools of the answer that the request does not offer."""
    parted: Difference | None = None


class Run:
    """A recording that is asked step by step, from as many threads as there are requests."""

    def __init__(self, recording: Recording, rules: Rules) -> None:
        self.recording = recording
        self.rules = rules
        self.verdicts: list[Verdict] = []
        self._lock = threading.Lock()
        self._served: set[int] = set()
        self._misses = 0
        self._next = dict.fromkeys(recording.lanes, 0)
        self._places: dict[bytes, list[Step]] = {}
        for step in recording.steps:
            for key in _keys(step):
                self._places.setdefault(key, []).append(step)

    @property
    def served(self) -> int:
        """How many steps were asked for."""
        return len(self._served)

    @property
    def is_complete(self) -> bool:
        """Whether every step was asked for."""
        return len(self._served) == len(self.recording.steps)

    @property
    def parted(self) -> Verdict | None:
        """The first request that the recording does not know."""
        return next((verdict for verdict in self.verdicts if verdict.outcome == "missed"), None)

    @property
    def unasked(self) -> Step | None:
        """The first step that nobody asked for."""
        return next(
            (step for step in self.recording.steps if step.number not in self._served), None
        )

    def was_served(self, step: Step) -> bool:
        """Whether a step was asked for."""
        return step.number in self._served

    def ask(self, asked: Asked) -> Verdict:
        """The answer to one request."""
        with self._lock:
            verdict = self._judge(asked, len(self.verdicts) + 1)
            self.verdicts.append(verdict if self._is_first_miss(verdict) else _in_short(verdict))
            return verdict

    def _is_first_miss(self, verdict: Verdict) -> bool:
        self._misses += verdict.outcome == "missed"
        return verdict.outcome == "missed" and self._misses == 1

    def _judge(self, asked: Asked, number: int) -> Verdict:
        step = self._find(asked)
        if self._is_aside(asked, step):
            words = stand_in(asked.schema) if asked.is_form else WORDS
            return Verdict(number, asked.wire, "aside", None, Answer(f"aside_{number}", [words]))
        if step is None:
            return self._miss(asked, number)
        outcome: Outcome = "repeated" if step.number in self._served else "matched"
        self._serve(step)
        mapped = [
            part if isinstance(part, str) else as_offered(part, asked.tools) for part in step.parts
        ]
        parts = [part if isinstance(part, str) else part.made for part in mapped]
        lacking = tuple(
            part.made.name for part in mapped if not isinstance(part, str) and not part.is_offered
        )
        return Verdict(
            number, asked.wire, outcome, step, Answer(f"step_{step.number}", parts), lacking
        )

    def _serve(self, step: Step) -> None:
        self._served.add(step.number)
        steps = self.recording.lanes[step.lane]
        place = self._next[step.lane]
        while place < len(steps) and steps[place].number in self._served:
            place += 1
        self._next[step.lane] = place

    def _find(self, asked: Asked) -> Step | None:
        """The step that a request asks for: what comes next if that fits, else one that was asked
        for before."""
        rules = self.rules
        fitting = [
            step
            for step in self._candidates(asked)
            if difference(step, asked, rules.sameness, any_results=rules.any_results) is None
        ]
        if not rules.any_order:
            ahead = {step.number for step in self._upcoming()}
            fitting = [
                step for step in fitting if step.number in ahead or step.number in self._served
            ]
        return next(
            (step for step in fitting if follows(step, asked)), fitting[0] if fitting else None
        )

    def _upcoming(self) -> Iterator[Step]:
        """The next step of every lane."""
        for name, steps in self.recording.lanes.items():
            if self._next[name] < len(steps):
                yield steps[self._next[name]]

    def _candidates(self, asked: Asked) -> list[Step]:
        """What comes next, what was served last, and steps with something of the request in
        them."""
        found = {step.number: step for step in self._upcoming()}
        for name, steps in self.recording.lanes.items():
            if place := self._next[name]:
                found.setdefault(steps[place - 1].number, steps[place - 1])
        for key in _keys_of(asked):
            for step in self._places.get(key, ())[:_LOOKED_AT]:
                found.setdefault(step.number, step)
            if len(found) > _LOOKED_AT * 2:
                break
        return list(found.values())

    def _is_aside(self, asked: Asked, step: Step | None) -> bool:
        """Whether a request is none of the conversation's: a title, a router's question, a
        probe."""
        if asked.limit is not None and asked.limit <= 1:
            return True
        if asked.tools or any(isinstance(item, Made | Got) for item in asked.items):
            return False
        if asked.is_form:
            return step is None or not step.text.lstrip().startswith(("{", "["))
        if _TITLE.search(asked.system[:4000]):
            return True
        return self.recording.has_calls and (step is None or bool(step.calls))

    def _miss(self, asked: Asked, number: int) -> Verdict:
        """No step: the nearest one, and where the request differs from it."""
        rules, nearest, parted = self.rules, None, None
        upcoming = list(self._upcoming())
        for step in sorted(upcoming, key=lambda step: not follows(step, asked)):
            found = difference(step, asked, rules.sameness, any_results=rules.any_results)
            if found is not None and (parted is None or _nearness(found) > _nearness(parted)):
                nearest, parted = step, found
        parted = parted or Difference("the end of the record", "", next(iter(asked.prompts), ""))
        total = len(self.recording.steps)
        words = f"open-token replay: this request is not in the recording, all {total} steps of which were asked for"
        if nearest:
            expected = f"step {nearest.number} of {total} was expected: {parted.where} differs"
            words = f"open-token replay: this request is not in the recording; {expected}"
        answer = Answer(
            f"miss_{number}", [WORDS] if rules.stub else [], "" if rules.stub else words
        )
        return Verdict(number, asked.wire, "missed", nearest, answer, parted=parted)


def _in_short(verdict: Verdict) -> Verdict:
    """What is kept of a request: a client that asks the wrong thing for days must not fill the
    memory with it."""
    parted = verdict.parted and Difference(verdict.parted.where, "", "")
    return msgspec.structs.replace(verdict, answer=Answer(verdict.answer.id, []), parted=parted)


def _nearness(found: Difference) -> int:
    """How much two differing texts have in common at their beginning: what was changed a little is
    meant."""
    both = zip(found.recorded[:2000], found.given[:2000], strict=False)
    return next(
        (place for place, (one, other) in enumerate(both) if one != other),
        min(len(found.given), 2000),
    )


def _key(kind: str, text: str) -> bytes:
    return hashlib.blake2b(
        f"{kind} {' '.join(text.split())}".encode("utf-8", "replace"), digest_size=12
    ).digest()


def _keys(step: Step) -> Iterator[bytes]:
    """Under what a step is found."""
    yield from (_key("prompt", text) for text in step.prompts)
    for result in step.results:
        yield _key("call", result.call.id)
        yield _key("result", bare(steady(result.text)))


def _keys_of(asked: Asked) -> Iterator[bytes]:
    """Under what the step of a request may be found."""
    yield from (_key("prompt", text) for text in asked.prompts)
    for item in asked.results:
        yield _key("call", item.id)
        yield _key("result", bare(steady(item.text)))
