"""Comparison of two sessions: what is ignored, what is found, two runtimes, hostile input."""

import random
from pathlib import Path
from typing import Any

import pytest

import open_token
from conftest import ROOT
from helpers.random_runs import (
    build_document,
    build_message,
    call,
    calls,
    draw_batches,
    mutate_batches,
    shuffle_batches,
)
from open_token.comparison import Difference, check_level, compare, parse_pointer
from open_token.comparison.steps import build_transcript
from open_token.errors import UsageError
from open_token.handoff import (
    HandoffDestination,
    build_conversation,
    list_target_names,
    load_handoff_module,
)

MIRROR = {"missing": "extra", "extra": "missing"}


def compared(
    a: dict[str, Any], b: dict[str, Any], level: str = "semantic", **more: Any
) -> Difference:
    return compare(
        build_transcript(a, level),
        build_transcript(b, level),
        names=("a", "b"),
        level=level,
        **more,
    )


def places(difference: Difference) -> list[tuple[str, int | None, int | None]]:
    """Every difference with its numbers in both runs."""
    rows = [row for row in difference.rows if row.kind not in ("equal", "order_change")]
    return [
        (row.kind, row.a.number if row.a else None, row.b.number if row.b else None) for row in rows
    ]


def reported_where_it_is(seed: int) -> None:
    """One change at a random place is reported there and nowhere else, from either side."""
    chance = random.Random(seed)
    batches = draw_batches(chance, chance.randrange(1, 40))
    changed, number, way = mutate_batches(batches, chance)
    if not changed:
        return
    there = compared(
        build_document(batches), build_document(shuffle_batches(changed, chance), shift=90)
    )
    where = {"missing": (number, None), "extra": (None, number)}.get(way, (number, None))
    found = places(there)
    assert len(found) == 1, (seed, way, found)
    assert found[0][0] == way, (seed, way, found)
    if way == "extra":
        assert found[0][1:] == where, (seed, found)
    else:
        assert found[0][1] == where[0], (seed, found)
    assert there.divergence is not None
    assert there.divergence.radius == 1, (seed, way)
    back = compared(
        build_document(changed, shift=7), build_document(shuffle_batches(batches, chance))
    )
    assert [kind for kind, *_ in places(back)] == [MIRROR.get(way, way)], (seed, way)


@pytest.mark.parametrize("seed", range(40))
def test_a_change_is_reported_exactly_where_it_is(seed: int) -> None:
    reported_where_it_is(seed)


@pytest.mark.full
def test_a_thousand_changes_are_reported_where_they_are() -> None:
    for seed in range(1000, 2000):
        reported_where_it_is(seed)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("level", ["semantic", "exact"])
def test_a_run_is_the_same_under_other_ids_and_times(seed: int, level: str) -> None:
    chance = random.Random(seed)
    batches = draw_batches(chance, 30)
    assert compared(build_document(batches), build_document(batches, shift=500), level).same


@pytest.mark.parametrize("seed", range(12))
def test_calls_made_side_by_side_in_another_order_are_the_same(seed: int) -> None:
    chance = random.Random(seed)
    batches = draw_batches(chance, 30)
    made = compared(
        build_document(batches), build_document(shuffle_batches(batches, chance), shift=500)
    )
    assert made.same
    assert made.sentence.startswith("Same: ")


def test_level_exact_compares_the_order() -> None:
    x, y = call("Bash", command="ls"), call("Read", file_path="a.py")
    made = compared(build_document([calls(x, y)]), build_document([calls(y, x)]), "exact")
    assert not made.same
    assert made.counts == {"order_change": 1}


@pytest.mark.parametrize("seed", range(25))
def test_comparison_is_symmetric(seed: int) -> None:
    """Runs with many differences: from the other side they are the same, the other way round."""
    chance = random.Random(seed)
    one = draw_batches(chance, 25)
    other = one
    for _ in range(chance.randrange(1, 12)):
        other = mutate_batches(other, chance)[0] or other
    a, b = build_document(one), build_document(shuffle_batches(other, chance), shift=3)
    there, back = compared(a, b), compared(b, a)
    mirrored = sorted((MIRROR.get(kind, kind), str(y), str(x)) for kind, x, y in places(back))
    assert sorted((kind, str(x), str(y)) for kind, x, y in places(there)) == mirrored
    assert (there.divergence is None) == (back.divergence is None)
    if there.divergence and back.divergence:
        assert there.divergence.cause == back.divergence.cause
        assert there.ratio == back.ratio


def test_the_cause() -> None:
    start = [build_message("user", "Fix it."), calls(call("Bash", "1 failed", command="make test"))]
    environment = [start[0], calls(call("Bash", "1 passed", command="make test"))]
    decision = [start[0], calls(call("Bash", "1 failed", command="make all"))]
    wish = [build_message("user", "Break it."), start[1]]
    for other, cause in ((environment, "environment"), (decision, "decision"), (wish, "input")):
        made = compared(build_document(start), build_document(other))
        assert made.divergence
        assert made.divergence.cause == cause


def test_text_before_the_same_action_is_no_divergence() -> None:
    def run(words: str, command: str) -> dict[str, Any]:
        actions = [calls(call("Bash", command="make test")), calls(call("Bash", command=command))]
        return build_document(
            [build_message("user", "Fix it."), build_message("assistant", words), *actions]
        )

    made = compared(run("I look.", "ls"), run("Let me see.", "git log"))
    assert made.first == 1
    assert made.divergence
    assert made.divergence.row == 3
    made = compared(run("I look.", "ls"), run("Let me see.", "ls"))
    assert not made.same
    assert (
        made.sentence
        == "Same actions; only message text of the model differs: 1 text differs at step 2."
    )


def test_text_before_different_input_is_the_divergence() -> None:
    one = [
        build_message("user", "Hello"),
        build_message("assistant", "Which file?"),
        build_message("user", "tides.py"),
    ]
    other = [
        build_message("user", "Hello"),
        build_message("assistant", "Which folder?"),
        build_message("user", "src"),
    ]
    made = compared(build_document(one), build_document(other))
    assert made.divergence
    assert made.divergence.row == 1
    assert made.divergence.cause == "decision"


def test_sessions_in_two_directories_are_the_same() -> None:
    def run(cwd: str, shift: int) -> dict[str, Any]:
        reading = call("Read", f"see {cwd}/b.py, in {cwd}", file_path=f"{cwd}/a.py")
        patch = call(
            "apply_patch", changes={f"{cwd}/a.py": {"type": "add", "unified_diff": f"+{cwd}/b.py"}}
        )
        return build_document(
            [calls(reading, call("Bash", command=f"cd {cwd} && ls"), patch)], cwd=cwd, shift=shift
        )

    assert compared(run("/tmp/one", 0), run("/tmp/the/other", 5)).same
    assert not compared(run("/tmp/one", 0), run("/tmp/the/other", 5), "exact").same


@pytest.mark.parametrize(
    "reading",
    [
        call("Read", file_path="/tmp/one/a.py"),
        call("shell", command=["bash", "-lc", "cat /tmp/one/a.py"]),
        call("apply_patch", changes={"/tmp/one/a.py": {"type": "add"}}),
    ],
)
def test_a_run_that_was_handed_over_is_seen_from_where_it_was(reading: Any) -> None:
    batches = [build_message("user", "You are in /tmp/one."), calls(reading)]
    assert compared(
        build_document(batches, cwd="/tmp/one"), build_document(batches, cwd="/tmp/other", shift=3)
    ).same
    mixed = [*batches, calls(call("Read", file_path="/tmp/other/a.py"))]
    assert not compared(
        build_document(mixed, cwd="/tmp/one"), build_document(mixed, cwd="/tmp/other", shift=3)
    ).same


@pytest.mark.parametrize("agent", list_target_names())
def test_a_conversation_is_the_same_in_the_format_of_every_agent(
    agent: str, tmp_path: Path
) -> None:
    source = ROOT / "examples" / "claude_code.jsonl"
    session = load_handoff_module(agent).build_session(
        build_conversation(open_token.export(source)),
        HandoffDestination("/srv/elsewhere", tmp_path, {}),
    )
    made = open_token.diff(source, next(iter(session.files.values())))
    assert (made.equal, made.counts) == (8, {"extra": 1})  # the note to the next agent
    assert made.divergence
    assert made.divergence.cause == "input"


def test_two_runtimes_compare_by_what_is_done() -> None:
    one = [
        build_message("user", "Fix it."),
        calls(
            call(
                "Bash",
                "Exit code 1\n1 failed in 0.31s",
                failed=True,
                command="pytest -q",
                description="Run it",
            )
        ),
        calls(call("Read", "1\tx = 1\n2\ty = 2", file_path="/w/a.py")),
        calls(
            call(
                "Edit",
                "The file has been updated.",
                file_path="/w/a.py",
                old_string="x = 1",
                new_string="x = 2",
            )
        ),
    ]
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n y = 2\n*** End Patch"
    head = "Chunk ID: 1f\nWall time: 0.4 seconds\nProcess exited with code 1\nOutput:\n"
    other = [
        build_message("system", "You are careful."),
        build_message("user", "Fix it."),
        calls(call("exec_command", f"{head}1 failed in 0.29s\n", failed=True, cmd="pytest -q")),
        calls(call("exec_command", "x = 1\ny = 2\n", cmd="cat a.py")),
        calls(call("apply_patch", "Success.", input=patch)),
    ]
    made = compared(build_document(one, cwd="/w"), build_document(other, cwd="/w", shift=4))
    assert made.same
    assert made.files == {"same": ["a.py"], "differ": [], "only_a": [], "only_b": []}
    assert any("edit, read, run" in note for note in made.notes)
    assert any("not compared (0 and 1)" in note for note in made.notes)


def test_a_prompt_of_one_runtime_counts() -> None:
    one, other = (
        [build_message("system", "Be brief."), build_message("user", "Hello")],
        [build_message("user", "Hello")],
    )
    made = compared(build_document(one), build_document(other))
    assert places(made) == [("missing", 1, None)]


def test_markers_compare_by_type_in_two_conversations_and_by_value_in_one() -> None:
    def run(mark: str, **about: Any) -> dict[str, Any]:
        return build_document(
            [build_message("user", f"The key is [REDACTED:api_key:{mark}]")], **about
        )

    made = compared(run("0123abcd"), run("99887766", shift=1))
    assert made.same
    assert any("by type only" in note for note in made.notes)
    assert not compared(run("0123abcd", id="c"), run("99887766", id="c")).same
    by_team = {"redaction": {"mode": "secrets", "strategy": "hash"}}
    assert not compared(run("0123abcd", **by_team), run("99887766", shift=1, **by_team)).same


def test_what_is_ignored_does_not_count() -> None:
    one = [calls(call("lighthouse", "on", beam="north", nested={"when": [1, 2]}))]
    other = [calls(call("lighthouse", "off", beam="north", nested={"when": [1, 3]}))]
    a, b = build_document(one), build_document(other)
    assert not compared(a, b, ignore=["/result"]).same
    assert not compared(a, b, ignore=["/arguments/nested"]).same
    assert compared(a, b, ignore=["/result", "/arguments/nested/when/1"]).same
    assert compared(a, b, ignore=["/result", "/arguments/*"]).same


@pytest.mark.parametrize("text", ["", "result", "arguments/x", "/" + "a" * 1000])
def test_a_bad_pointer_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pointer(text)


def test_a_pointer_in_its_parts() -> None:
    assert parse_pointer("/arguments/a~1b~0c/*") == ("arguments", "a/b~c", "*")


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown level"):
        check_level("fuzzy")


ODD: list[Any] = [
    {},
    {"events": None},
    {"events": [None, 3, "x", [], {}]},
    {
        "events": [
            {"type": "message", "content": None, "links": 3, "usage": [], "ts": 4, "role": {}}
        ]
    },
    {"events": [{"type": "tool_use", "content": {"data": [1]}, "links": {"call_id": {}}}] * 3},
    {
        "events": [{"type": "tool_result", "content": {"text": "\ud800", "data": 2**70}}],
        "participants": [None, {}],
    },
    {
        "events": [{"type": "annotation", "content": {"data": {"kind": ["context"], "cwd": {}}}}],
        "conversation": [],
    },
    {"events": [{"type": "message", "role": "user", "content": {"data": 2**70}}]},
]


@pytest.mark.parametrize("place", range(len(ODD)))
@pytest.mark.parametrize("level", ["semantic", "exact"])
def test_odd_documents_are_compared_without_a_fault(place: int, level: str) -> None:
    for other in ODD:
        made = compared(ODD[place], other, level)
        assert made.as_json()["schema"] == "open-token/diff/1"
    assert compared(ODD[place], ODD[place], level).same


def test_many_equal_and_many_different_steps_take_linear_time() -> None:
    """The larger sizes stand in test_sequence_match.py and in the benchmark."""
    same = [calls(call("Bash", command="ls")) for _ in range(1200)]
    fewer = [*same[:450], build_message("user", "and?"), *same[450:900]]
    made = compared(build_document(same), build_document(fewer))
    assert made.equal == 900
    unlike = [calls(call("Bash", str(n), command=f"{n}")) for n in range(900)]
    other = [calls(call("Bash", str(-n), command=f"x{n}")) for n in range(900)]
    assert compared(build_document(unlike), build_document(other)).equal == 0
