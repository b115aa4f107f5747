"""Where a request differs from what a recorded answer was an answer to; nowhere, and it is that
request."""

from typing import Any

import msgspec

from open_token.replay.asked import Asked, Got, Made
from open_token.replay.offered import as_offered
from open_token.replay.plain import MEDIA
from open_token.replay.recording import Call, Step
from open_token.replay.sameness import Sameness, without_tags


class Difference(msgspec.Struct, frozen=True):
    """The first place where a request is not the recorded one, in plain words, and both sides of
    it."""

    where: str
    recorded: str
    given: str


def difference(
    step: Step, asked: Asked, sameness: Sameness, *, any_results: bool = False
) -> Difference | None:
    """The first difference between a request and that of a step; None if it is the same."""
    found = _calls(step, asked, sameness) or _results(step, asked, sameness, any_results)
    found = found or _prompts(step, asked, sameness)
    return found or (_extras(step, asked, sameness) if sameness.exact else None)


def follows(step: Step, asked: Asked) -> bool:
    """Whether the model's last words in a request are those of the step before."""
    return (step.before.text if step.before else "").split() == asked.last_words.split()


def _prompts(step: Step, asked: Asked, sameness: Sameness) -> Difference | None:
    for text in step.prompts:
        if not any(sameness.prompts(text, given) for given in asked.prompts):
            return Difference("the prompt", text, _nearest(asked.prompts))
    if not step.prompts and not step.results and not step.is_open:
        return Difference("the prompt", "", _nearest(asked.prompts))
    return None


def _nearest(prompts: list[str]) -> str:
    """What was said last by a person."""
    said = [text for text in prompts if without_tags(text).strip()]
    return said[-1] if said else ""


def _results(step: Step, asked: Asked, sameness: Sameness, any_results: bool) -> Difference | None:
    given = _paired(step, asked)
    latest = {id(item) for item in asked.results}
    if step.results and not any(item is not None and id(item) in latest for item in given):
        return Difference(f"the result of {step.results[0].call.tool}", step.results[0].text, "")
    for result, got in zip(step.results, given, strict=True):
        where = f"the result of {result.call.tool}"
        if not result.is_known or (any_results and got is not None):
            continue
        if got is None:
            return Difference(where, result.text, "")
        if not sameness.results(result.text, got.text):
            return Difference(where, sameness.told(result.text), sameness.told(got.text))
    if not step.results and asked.results:
        return Difference("a result that was not recorded", "", asked.results[0].text)
    return None


def _paired(step: Step, asked: Asked) -> list[Got | None]:
    """The result of each recorded one's call in a request: by its id, else by its place among the
    last."""
    if any(result.call.id in asked.all_results for result in step.results):
        return [asked.all_results.get(result.call.id) for result in step.results]
    return [
        asked.results[place] if place < len(asked.results) else None
        for place in range(len(step.results))
    ]


def _calls(step: Step, asked: Asked, sameness: Sameness) -> Difference | None:
    """Whether the calls that a request tells of are those that were answered."""
    recorded = step.before.calls if step.before else []
    by_place = asked.last_calls[-len(recorded) :] if recorded else []
    for place, call in enumerate(recorded):
        made = asked.all_calls.get(call.id) or (
            by_place[place] if len(by_place) == len(recorded) else None
        )
        if made is not None and (found := _call(call, made, asked, sameness)):
            return found
    return None


def _call(call: Call, made: Made, asked: Asked, sameness: Sameness) -> Difference | None:
    offered = as_offered(call, asked.tools).made
    if made.name != offered.name:
        return Difference(f"the call of {call.tool}", offered.name, made.name)
    if not sameness.values(offered.arguments, made.arguments):
        return Difference(
            f"the arguments of {call.tool}", _told(offered.arguments), _told(made.arguments)
        )
    return None


def _told(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


def _extras(step: Step, asked: Asked, sameness: Sameness) -> Difference | None:
    """What a request says beyond the record."""
    known = [*step.prompts, *step.others]
    for given in asked.prompts:
        if given != MEDIA and not any(sameness.prompts(text, given) for text in known):
            return Difference("words that were not recorded", "", given)
    if step.before and not follows(step, asked):
        return Difference("the answer before", step.before.text, asked.last_words)
    return None
