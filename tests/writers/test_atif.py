"""One ATIF trajectory: steps, calls with their observations, subagents, tokens."""

from typing import Any

import pytest

from helpers.small_conversations import (
    ask,
    call,
    event,
    fact,
    result,
    say,
    span,
    think,
    write_conversation,
)
from open_token.errors import InputError


def steps(*events: Any) -> list[dict[str, Any]]:
    made = write_conversation("atif", *events)[0]["steps"]
    assert [step.pop("step_id") for step in made] == list(range(1, len(made) + 1))
    for step in made:
        if step["source"] == "agent":
            assert step.pop("model_name", None)
    return list(made)


def test_answer_is_one_step_with_what_came_back() -> None:
    assert steps(
        ask("a"),
        think("t"),
        think("u"),
        say("b"),
        call(1),
        call(2),
        result(2, "two"),
        result(1, "one"),
    ) == [
        {"source": "user", "message": "a"},
        {
            "source": "agent",
            "message": "b",
            "reasoning_content": "t\n\nu",
            "tool_calls": [
                {"tool_call_id": "call_1", "function_name": "run", "arguments": {}},
                {"tool_call_id": "call_2", "function_name": "run", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "call_1", "content": "one"},
                    {"source_call_id": "call_2", "content": "two"},
                ]
            },
        },
    ]


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([say("a"), say("b")], 2),
        ([say("a"), say("b", "n")], 2),
        ([say("a"), think("t"), say("b")], 2),
        ([say("a"), call(1), say("b")], 2),
        ([say("a"), call(1), result(1), call(2)], 2),
        ([say("a", usage={"input_tokens": 1}), call(1, usage={"input_tokens": 2})], 2),
        ([think("t"), think("u"), say("a"), call(1), call(2)], 1),
        ([say("a"), call(1), call(2, actor="n")], 2),
    ],
)
def test_another_answer_begins(events: list[Any], count: int) -> None:
    assert len(steps(*events)) == count


def test_late_result_stands_with_its_call() -> None:
    first, _, last = steps(call(1), ask("and?"), say("wait"), result(1, "late"))
    assert first["observation"] == {"results": [{"source_call_id": "call_1", "content": "late"}]}
    assert "observation" not in last


def test_call_without_a_result_has_no_observation() -> None:
    (only,) = steps(call(1), result(1, {"missing_result": True}))
    assert "observation" not in only


def test_result_without_a_call_is_an_observation_alone() -> None:
    made, notes = write_conversation("atif", say("a"), result(1, "who asked?"))
    observed = {"observation": {"results": [{"content": "who asked?"}]}}
    assert made["steps"][1] == {"step_id": 2, "source": "system", "message": "", **observed}
    assert notes["orphan-result"].count == 1


def test_calls_keep_their_own_ids_as_long_as_they_are_the_only_ones() -> None:
    made = steps(call(1, native="x"), result(1), call(2, native="x"), result(2), call(3))
    assert [step["tool_calls"][0]["tool_call_id"] for step in made] == ["x", "call_2", "call_3"]
    assert [step["observation"]["results"][0]["source_call_id"] for step in made[:2]] == [
        "x",
        "call_2",
    ]


def test_arguments_are_an_object() -> None:
    (only,) = steps(call(1, given=[1, 2]))
    assert only["tool_calls"][0]["arguments"] == {"arguments": [1, 2]}


def test_tokens_without_a_message_count_for_the_step_before_them_or_for_the_first() -> None:
    early, late = (
        {"input_tokens": 1, "output_tokens": 2},
        {"input_tokens": 10, "reasoning_tokens": 5},
    )
    made, _ = write_conversation(
        "atif",
        fact("usage", usage=early),
        ask("a"),
        say("b", usage=late),
        fact("usage", usage=late),
    )
    assert made["steps"][1]["metrics"] == {
        "prompt_tokens": 21,
        "completion_tokens": 2,
        "extra": {"reasoning_tokens": 10},
    }
    assert made["steps"][1]["llm_call_count"] == 3
    assert made["final_metrics"] == {
        "total_prompt_tokens": 21,
        "total_completion_tokens": 2,
        "total_steps": 2,
        "extra": {"reasoning_tokens": 10},
    }


def test_tokens_without_a_message_are_an_empty_step() -> None:
    made, _ = write_conversation("atif", fact("usage", usage={"input_tokens": 7}), ask("a"))
    assert made["steps"][1] == {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "metrics": {"prompt_tokens": 7},
    }
    assert made["final_metrics"] == {"total_prompt_tokens": 7, "total_steps": 2}


def test_money_of_subagents_is_in_the_sum() -> None:
    inner = [
        span("s", call_id="call_1"),
        say("b", "n", span_id="s"),
        fact("cost", cost_usd=0.5, span_id="s"),
    ]
    made, _ = write_conversation("atif", call(1), *inner, result(1), fact("cost", cost_usd=0.25))
    assert made["final_metrics"]["total_cost_usd"] == 0.75
    assert made["subagent_trajectories"][0]["final_metrics"]["total_cost_usd"] == 0.5


def test_facts_have_fields_of_their_own() -> None:
    facts = {
        "copied_context": True,
        "reasoning_effort": "high",
        "cost_usd": 0.1,
        "llm_call_count": 2,
        "other": 1,
    }
    _, answer = steps(ask("a"), say("b"), fact("message_facts", parent_id="evt_2", **facts))
    assert answer == {
        "source": "agent",
        "message": "b",
        "is_copied_context": True,
        "reasoning_effort": "high",
        "metrics": {"cost_usd": 0.1},
        "llm_call_count": 2,
        "extra": {"other": 1},
    }


def test_only_an_answer_has_the_fields_of_a_model() -> None:
    facts = {"reasoning_effort": "high", "cost_usd": 0.1, "metrics": {"a": 1}}
    (only,) = steps(ask("a"), fact("message_facts", parent_id="evt_1", **facts))
    assert only == {"source": "user", "message": "a", "extra": facts}


def test_dispatch_without_a_model_has_no_tokens() -> None:
    (only,) = steps(
        say("a", usage={"input_tokens": 1}),
        fact("message_facts", parent_id="evt_1", llm_call_count=0),
    )
    assert "llm_call_count" not in only
    assert only["extra"] == {"llm_call_count": 0}


def test_summary_of_a_thought_is_called_one() -> None:
    thought = think("In short.")
    thought["content"]["data"] = {"summary": "runtime"}
    (only,) = steps(thought, say("a"))
    assert only["reasoning_content"] == "In short."
    assert only["extra"] == {"reasoning_is": "summary"}


def test_other_roles_are_in_extra() -> None:
    developer = event("message", "u", "Be brief.", "developer")
    first, second = steps(developer, ask("The clock strikes.", visibility="internal"))
    assert first == {"source": "system", "message": "Be brief.", "extra": {"role": "developer"}}
    assert second == {
        "source": "user",
        "message": "The clock strikes.",
        "extra": {"visibility": "internal"},
    }


class TestSubagents:
    def test_subagent_is_embedded_and_named_by_the_result_of_its_call(self) -> None:
        about = {
            "agent_id": "a",
            "subagent_type": "pilot",
            "session_id": "s-9",
            "spawn_reason": "why",
        }
        inner = [
            span("s", about, call_id="call_1"),
            ask("q", span_id="s"),
            say("b", "n", span_id="s"),
        ]
        made, _ = write_conversation("atif", call(1), *inner, result(1, "b"))
        (child,) = made["subagent_trajectories"]
        assert child["trajectory_id"] == "a"
        assert child["agent"] == {"name": "pilot", "version": "unknown", "model_name": "model-2"}
        assert [step["message"] for step in child["steps"]] == ["q", "b"]
        assert made["steps"][0]["observation"]["results"] == [
            {
                "source_call_id": "call_1",
                "content": "b",
                "subagent_trajectory_ref": [
                    {"trajectory_id": "a", "session_id": "s-9", "extra": {"spawn_reason": "why"}}
                ],
            }
        ]

    def test_call_that_never_came_back_still_names_it(self) -> None:
        made, _ = write_conversation(
            "atif", call(1), span("s", call_id="call_1"), say("b", "n", span_id="s")
        )
        (observed,) = made["steps"][0]["observation"]["results"]
        assert observed["extra"] == {"missing_result": True}
        assert observed["subagent_trajectory_ref"] == [{"trajectory_id": "s"}]

    def test_one_that_serves_no_call_stands_in_its_place(self) -> None:
        made, _ = write_conversation(
            "atif", ask("a"), span("s"), say("b", "n", span_id="s"), say("c")
        )
        refs = [{"subagent_trajectory_ref": [{"trajectory_id": "s"}]}]
        assert made["steps"][1] == {
            "step_id": 2,
            "source": "system",
            "message": "",
            "observation": {"results": refs},
        }

    def test_names_are_given_once(self) -> None:
        names = [({"agent_id": "s2"}, "s1"), ({"agent_id": "s2"}, "s2"), ({"agent_id": "s2"}, "s3")]
        inner = [
            item for about, own in names for item in (span(own, about), say("b", "n", span_id=own))
        ]
        made, _ = write_conversation("atif", ask("a"), *inner)
        found = [child["trajectory_id"] for child in made["subagent_trajectories"]]
        assert len(set(found)) == 3

    def test_one_without_a_step_is_a_reference_to_its_file_or_noted(self) -> None:
        made, notes = write_conversation(
            "atif", ask("a"), span("s", {"file": "agent-1.jsonl"}), span("r")
        )
        assert "subagent_trajectories" not in made
        assert made["steps"][1]["observation"]["results"] == [
            {"subagent_trajectory_ref": [{"trajectory_path": "agent-1.jsonl"}]}
        ]
        assert notes["subagent"].count == 1


@pytest.mark.parametrize(
    ("block", "part", "code"),
    [
        (
            {
                "type": "image",
                "media_type": "image/png",
                "base64": "AA==",
                "bytes": 1,
                "sha256": "ab",
            },
            {"type": "text", "text": "[left out: image/png, 1 bytes, sha256 ab]"},
            "media",
        ),
        ({"type": "file", "base64": "AA=="}, {"type": "text", "text": "[left out: file]"}, "media"),
        (
            {"type": "image", "url": "https://example.org/a.JPG?size=1"},
            {
                "type": "image",
                "source": {"media_type": "image/jpeg", "path": "https://example.org/a.JPG?size=1"},
            },
            None,
        ),
        (
            {"type": "image", "media_type": "image/png", "path": "images/a.png"},
            {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}},
            "media-path",
        ),
        (
            {
                "type": "audio",
                "media_type": "audio/wav",
                "url": "https://example.org/a",
                "duration_sec": 2,
            },
            {
                "type": "audio",
                "source": {
                    "media_type": "audio/wav",
                    "path": "https://example.org/a",
                    "duration_sec": 2,
                },
            },
            None,
        ),
        (
            {"type": "image", "url": "https://example.org/a"},
            {"type": "text", "text": '{"type":"image","url":"https://example.org/a"}'},
            "json-text",
        ),
        (
            {"type": "image", "url": "own://a", "base64": "AA==", "media_type": "image/png"},
            {"type": "text", "text": "[left out: image/png]"},
            "media",
        ),
    ],
)
def test_media(block: Any, part: Any, code: str | None) -> None:
    made, notes = write_conversation("atif", ask([block]))
    assert made["steps"][0]["message"] == [part]
    assert list(notes) == ([code] if code else [])


def test_nobody_says_anything() -> None:
    with pytest.raises(InputError) as caught:
        write_conversation("atif", fact("notice"))
    assert caught.value.code == "input.no-messages"


def test_branch_may_be_known_by_its_name_alone() -> None:
    branch = span("s")
    branch["content"]["data"] = {"branch": 2}
    made, notes = write_conversation("atif", ask("a"), branch, say("not this", span_id="s"))
    assert len(made["steps"]) == 1
    assert list(notes) == ["branch"]


def test_result_that_only_names_its_subagent_has_no_content() -> None:
    inner = [span("s", call_id="call_1"), say("b", "n", span_id="s")]
    made, _ = write_conversation(
        "atif",
        call(1),
        *inner,
        result(1, [{"type": "subagent_trajectory_ref", "trajectory_id": "x"}]),
    )
    assert made["steps"][0]["observation"]["results"] == [
        {"source_call_id": "call_1", "subagent_trajectory_ref": [{"trajectory_id": "s"}]}
    ]


def test_several_agents_in_one_run_are_named() -> None:
    assert [step["extra"]["agent"] for step in steps(say("a"), say("b", "n"))] == [
        "assistant",
        "helper",
    ]


def test_what_was_extra_of_the_agent_is_so_again() -> None:
    made, _ = write_conversation(
        "atif",
        say("a"),
        fact("context", version="3", agent_extra={"x": 1}, notes="n", extra={"y": 2}),
    )
    assert made["agent"] == {
        "name": "assistant",
        "version": "3",
        "model_name": "model-1",
        "extra": {"x": 1},
    }
    assert made["notes"] == "n"
    assert made["extra"]["y"] == 2
