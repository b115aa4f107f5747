"""A conversation as steps."""

from helpers.random_runs import build_document, build_message, call, calls
from open_token.comparison.steps import build_transcript

RUN = build_document(
    [
        build_message("user", "Fix it."),
        calls(
            call("Bash", "1 failed", failed=True, command="make"),
            call("Read", None, file_path="/w/a.py"),
        ),
        calls(call("Edit", file_path="/w/a.py", old_string="x", new_string="y")),
    ],
    cwd="/w",
)


def test_calls_stand_with_their_results() -> None:
    run = build_transcript(RUN, "semantic")
    assert [(step.number, step.kind, step.tool, step.action.target) for step in run.steps] == [
        (1, "message", "", ""),
        (2, "call", "Bash", "make"),
        (3, "call", "Read", "a.py"),
        (4, "call", "Edit", "a.py"),
    ]
    assert [step.failed for step in run.steps] == [False, True, False, False]
    assert [step.has_result for step in run.steps] == [False, True, False, True]
    assert [step.batch for step in run.steps] == [0, 1, 1, 2]


def test_facts_of_the_whole() -> None:
    run = build_transcript(
        RUN
        | {"participants": [{"model": "m", "actor_id": "act_001", "kind": "model", "name": "x"}]},
        "exact",
    )
    assert run.models == ["m"]
    assert run.actors == {"act_001": "model x"}
    assert run.ms == 1000 * (run.events - 1)
    assert build_transcript(RUN, "semantic").cwd == "/w"


def test_tokens_are_added_up() -> None:
    events = [
        {**event, "usage": {"input_tokens": 10, "output_tokens": True}} for event in RUN["events"]
    ]
    assert build_transcript({"events": events}, "semantic").tokens == {
        "input_tokens": 10 * len(events)
    }


def test_annotations_are_steps_when_something_happened_or_everything_counts() -> None:
    notes = [
        {"type": "annotation", "content": {"data": {"kind": kind}}}
        for kind in ("interrupted", "notice", "usage", None)
    ]
    assert len(build_transcript({"events": notes}, "semantic").steps) == 1
    assert len(build_transcript({"events": notes}, "exact").steps) == 3


def test_a_result_without_a_call_and_a_second_result_are_steps() -> None:
    use = {"type": "tool_use", "content": {"data": {"tool_name": "x"}}, "links": {"call_id": "c"}}
    result = {"type": "tool_result", "content": {"text": "y"}, "links": {"call_id": "c"}}
    lost = {**result, "links": {"call_id": "d"}}
    run = build_transcript({"events": [use, result, result, lost]}, "semantic")
    assert [step.kind for step in run.steps] == ["call", "result", "result"]
