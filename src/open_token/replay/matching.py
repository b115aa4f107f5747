"""Matching of a request against a recorded step: the first difference, or none."""

from typing import Any

import msgspec

from open_token.replay.equivalence import Equivalence, strip_tagged_notes
from open_token.replay.recording import Call, Step
from open_token.replay.requests import ModelRequest, ToolCall, ToolResult
from open_token.replay.text import MEDIA
from open_token.replay.tool_mapping import map_call


class RequestDifference(msgspec.Struct, frozen=True):
    """The first difference between a request and the recorded one, with both sides of it."""

    where: str
    recorded: str
    given: str


def find_difference(
    step: Step, request: ModelRequest, equivalence: Equivalence, *, any_results: bool = False
) -> RequestDifference | None:
    """Return the first difference between a request and that of a step; None if they match."""
    difference = (
        _compare_calls(step, request, equivalence)
        or _compare_results(step, request, equivalence, any_results)
        or _compare_prompts(step, request, equivalence)
    )
    if difference is None and equivalence.exact:
        return _find_extras(step, request, equivalence)
    return difference


def follows_step(step: Step, request: ModelRequest) -> bool:
    """Return whether the last model text of a request is that of the step before."""
    previous_text = step.previous.text if step.previous else ""
    return previous_text.split() == request.last_text.split()


def _compare_prompts(
    step: Step, request: ModelRequest, equivalence: Equivalence
) -> RequestDifference | None:
    for prompt in step.prompts:
        if not any(equivalence.matches_prompt(prompt, given) for given in request.prompts):
            return RequestDifference("the prompt", prompt, _get_last_prompt(request))
    if not step.prompts and not step.results and not step.is_open:
        return RequestDifference("the prompt", "", _get_last_prompt(request))
    return None


def _get_last_prompt(request: ModelRequest) -> str:
    """Return the last text that a person wrote."""
    for text in reversed(request.prompts):
        if strip_tagged_notes(text).strip():
            return text
    return ""


def _compare_results(
    step: Step, request: ModelRequest, equivalence: Equivalence, any_results: bool
) -> RequestDifference | None:
    given_results = _pair_results(step, request)
    if step.results:
        # All results may be known from the history of the request. If none of them is new, the
        # agent is still at an earlier step.
        new_results = {id(item) for item in request.results}
        if not any(id(given) in new_results for given in given_results if given is not None):
            first = step.results[0]
            return RequestDifference(f"the result of {first.call.tool}", first.text, "")
    elif request.results:
        return RequestDifference("a result that was not recorded", "", request.results[0].text)
    for recorded, given in zip(step.results, given_results, strict=True):
        if not recorded.is_known or (any_results and given is not None):
            continue
        where = f"the result of {recorded.call.tool}"
        if given is None:
            return RequestDifference(where, recorded.text, "")
        if not equivalence.matches_result(recorded.text, given.text):
            return RequestDifference(
                where, equivalence.normalize(recorded.text), equivalence.normalize(given.text)
            )
    return None


def _pair_results(step: Step, request: ModelRequest) -> list[ToolResult | None]:
    """Return the result of the request for each recorded one: by call id, else by position."""
    call_ids = [result.call.id for result in step.results]
    if any(call_id in request.all_results for call_id in call_ids):
        return [request.all_results.get(call_id) for call_id in call_ids]
    # Some agents give the calls ids of their own; then the order is all there is.
    paired: list[ToolResult | None] = []
    for position in range(len(call_ids)):
        if position < len(request.results):
            paired.append(request.results[position])
        else:
            paired.append(None)
    return paired


def _compare_calls(
    step: Step, request: ModelRequest, equivalence: Equivalence
) -> RequestDifference | None:
    """Compare the calls in a request with those that were recorded before the step."""
    recorded = step.previous.calls if step.previous else []
    last_calls = request.last_calls[-len(recorded) :] if recorded else []
    has_positions = len(last_calls) == len(recorded)
    for position, call in enumerate(recorded):
        given = request.all_calls.get(call.id)
        if given is None and has_positions:
            given = last_calls[position]
        if given is None:
            continue
        difference = _compare_call(call, given, request, equivalence)
        if difference is not None:
            return difference
    return None


def _compare_call(
    call: Call, given: ToolCall, request: ModelRequest, equivalence: Equivalence
) -> RequestDifference | None:
    expected = map_call(call, request.tools).call
    if given.name != expected.name:
        return RequestDifference(f"the call of {call.tool}", expected.name, given.name)
    if not equivalence.matches_value(expected.arguments, given.arguments):
        return RequestDifference(
            f"the arguments of {call.tool}",
            _format_value(expected.arguments),
            _format_value(given.arguments),
        )
    return None


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()


def _find_extras(
    step: Step, request: ModelRequest, equivalence: Equivalence
) -> RequestDifference | None:
    """Return what a request has beyond the recording."""
    known = [*step.prompts, *step.injected]
    for given in request.prompts:
        if given == MEDIA or any(equivalence.matches_prompt(text, given) for text in known):
            continue
        return RequestDifference("text that was not recorded", "", given)
    if step.previous and not follows_step(step, request):
        return RequestDifference("the previous answer", step.previous.text, request.last_text)
    return None
