"""Alignment of the steps of two sessions."""

from typing import Any

from helpers.random_runs import Batch, build_document, build_message, call, calls
from open_token.comparison.alignment import align_steps
from open_token.comparison.keys import ComparisonRules, assign_keys
from open_token.comparison.steps import Transcript, build_transcript

RULES = ComparisonRules(exact=False, ignored=(), markers_by_type=True, translated=frozenset())


def run(*batches: Batch) -> Transcript:
    made = build_transcript(build_document(list(batches)), "semantic")
    assign_keys(made, RULES)
    return made


def pairs(a: Transcript, b: Transcript) -> tuple[Any, Any]:
    return align_steps(a.steps, b.steps)


X, Y, Z = (call("Bash", command=name) for name in ("x", "y", "z"))


def test_the_likest_are_a_pair() -> None:
    a = run(build_message("assistant", "the tide is in the harbour"))
    b = run(
        build_message("assistant", "hello there"),
        build_message("assistant", "the tide is not in the harbour"),
    )
    assert pairs(a, b) == ([(0, 1)], [])
    assert pairs(b, a) == ([(1, 0)], [])


def test_calls_of_a_batch_in_another_order() -> None:
    rising, moved = pairs(run(calls(X, Y, Z)), run(calls(Z, X, Y)))
    assert len(rising) + len(moved) == 3
    assert {(0, 1), (1, 2), (2, 0)} == {*rising, *moved}


def test_a_changed_call_of_a_batch_in_another_order() -> None:
    changed = call("Bash", command="z otherwise")
    rising, moved = pairs(run(calls(X, Y, Z)), run(calls(changed, X, Y)))
    assert {(0, 1), (1, 2), (2, 0)} == {*rising, *moved}


def test_calls_one_after_another_in_another_order_are_not_the_same() -> None:
    rising, moved = pairs(run(calls(X), calls(Y)), run(calls(Y), calls(X)))
    assert len(rising) == 1
    assert moved == []


def test_where_ways_part_the_first_calls_are_a_pair() -> None:
    a = run(build_message("assistant", "I look."), calls(call("Bash", command="git log")))
    b = run(calls(call("lighthouse", beam="on")))
    assert pairs(a, b) == ([(1, 0)], [])


def test_text_is_no_call() -> None:
    assert pairs(run(build_message("assistant", "x")), run(calls(X))) == ([], [])
    assert pairs(run(build_message("assistant", "x")), run(build_message("user", "x"))) == ([], [])


def test_nothing_against_something() -> None:
    assert pairs(run(), run(calls(X))) == ([], [])


def test_a_long_stretch_of_unlike_steps_is_cut_by_what_is_alike_at_a_glance() -> None:
    a = run(*(calls(call("Bash", str(n), command=f"{n}")) for n in range(60)))
    b = run(*(calls(call("Bash", f"{n}!", command=f"{n}")) for n in range(60)))
    assert pairs(a, b) == ([(n, n) for n in range(60)], [])
