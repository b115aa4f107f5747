"""What of a step is compared."""

from typing import Any

import pytest

from helpers.random_runs import build_document, build_message, call, calls
from open_token.comparison.keys import ComparisonRules, assign_keys, build_projection
from open_token.comparison.steps import Step, build_transcript

SEMANTIC = ComparisonRules(exact=False, ignored=(), markers_by_type=True, translated=frozenset())
EXACT = ComparisonRules(exact=True, ignored=(), markers_by_type=True, translated=frozenset())


def first(batch: list[dict[str, Any]], rules: ComparisonRules = SEMANTIC, **more: Any) -> Step:
    run = build_transcript(build_document([batch], **more), "exact" if rules.exact else "semantic")
    assign_keys(run, rules)
    return run.steps[0]


@pytest.mark.parametrize("rules", [SEMANTIC, EXACT])
def test_another_result_leaves_the_call_the_same(rules: ComparisonRules) -> None:
    one, other = (
        first(calls(call("Bash", output, command="make")), rules) for output in ("good", "bad")
    )
    assert one.call_key == other.call_key
    assert one.key != other.key


def test_comments_of_a_model_on_an_action_are_ignored() -> None:
    one, other = (
        first(calls(call("Bash", command="make", description=words)))
        for words in ("Make it", "Build")
    )
    assert one.key == other.key
    one, other = (
        first(calls(call("lighthouse", description=words))) for words in ("Make it", "Build")
    )
    assert one.key != other.key


def test_line_ends_and_blanks_around_do_not_count() -> None:
    assert first(build_message("user", "a\r\nb ")).key == first(build_message("user", "a\nb")).key
    assert (
        first(build_message("user", "a\r\nb "), EXACT).key
        != first(build_message("user", "a\nb"), EXACT).key
    )


def test_who_spoke_counts() -> None:
    assert first(build_message("user", "a")).key != first(build_message("assistant", "a")).key


def test_what_is_left_out_of_a_face() -> None:
    rules = ComparisonRules(
        exact=False, ignored=(("arguments", "n"),), markers_by_type=True, translated=frozenset()
    )
    run = build_transcript(build_document([calls(call("lighthouse", n=1, m=2))]), "semantic")
    assert build_projection(run, rules)(run.steps[0])[0] == {
        "tool": "lighthouse",
        "arguments": {"m": 2},
    }


def test_exact_counts_what_an_event_hangs_on_and_not_its_id() -> None:
    def note(parent: int, shift: int) -> bytes:
        made = build_document(
            [
                build_message("user", "a"),
                build_message("user", "b"),
                build_message("assistant", "c"),
            ],
            shift=shift,
        )
        made["events"][2]["links"] = {"replies_to": f"evt_{parent + shift:06d}", "span_id": "s"}
        run = build_transcript(made, "exact")
        assign_keys(run, EXACT)
        return run.steps[2].key

    assert note(1, 0) == note(1, 50)
    assert note(1, 0) != note(2, 0)


def test_redaction_markers_are_counted() -> None:
    run = build_transcript(
        build_document([build_message("user", "[REDACTED:a:00000001] and [REDACTED:b:00000002]")]),
        "semantic",
    )
    assert assign_keys(run, SEMANTIC) == 2
