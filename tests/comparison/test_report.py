"""The report on two sessions."""

import json

import msgspec

import open_token
from helpers.random_runs import build_document, build_message, call, calls

ONE = build_document(
    [
        build_message("user", "Fix it."),
        calls(
            call("Bash", "bad", failed=True, command="make", timeout=1, env={"A": "1", "B": "2"})
        ),
        calls(call("Edit", file_path="a.py", old_string="x", new_string="y")),
        build_message("assistant", "Done."),
    ]
)
OTHER = build_document(
    [
        build_message("user", "Fix it."),
        calls(
            call("Bash", "bad", failed=True, command="make", env={"A": "1", "B": "3"}, when="now")
        ),
        calls(call("Edit", file_path="a.py", old_string="x", new_string="z")),
        calls(call("Write", file_path="b.py", content="w")),
        build_message("assistant", "Done."),
    ],
    shift=5,
)


def test_report_is_json_with_stable_names() -> None:
    result = json.loads(msgspec.json.encode(open_token.diff(ONE, OTHER).as_json()))
    assert list(result) == [
        "schema", "same", "level", "sentence", "a", "b", "equal", "counts", "first", "divergence", "resync",
        "divergence_ratio", "blast_radius", "files", "notes", "differences",
    ]  # fmt: skip
    assert result["schema"] == "open-token/diff/1"
    assert result["same"] is False
    assert result["counts"] == {"args_changed": 2, "extra": 1}
    assert result["divergence"]["cause"] == "decision"
    assert result["divergence"]["a"] == {
        "step": 2,
        "seq": 2,
        "id": "evt_000002",
        "kind": "call",
        "role": "assistant",
        "tool": "Bash",
        "action": "run",
        "target": "make",
        "failed": True,
    }
    assert result["files"] == {"same": [], "differ": ["a.py"], "only_a": [], "only_b": ["b.py"]}
    assert result["divergence_ratio"] == 0.6
    assert result["blast_radius"] == 3
    assert result["resync"]["a"]["step"] == 4


def test_each_value_that_differs_has_its_pointer() -> None:
    result = open_token.diff(ONE, OTHER).as_json()
    assert result["differences"][0]["changes"] == [
        {"path": "/arguments/timeout", "a": 1},
        {"path": "/arguments/env/B", "a": "2", "b": "3"},
        {"path": "/arguments/when", "b": "now"},
    ]
    assert result["differences"][2] == {
        "class": "extra",
        "a": None,
        "b": {**result["differences"][2]["b"], "target": "b.py"},
        "changes": [],
    }


def test_true_is_not_one() -> None:
    one, other = (
        build_document([calls(call("lamp", on=value, at=[value]))]) for value in (True, 1)
    )
    result = open_token.diff(one, other).as_json()["differences"][0]["changes"]
    assert result == [
        {"path": "/arguments/on", "a": True, "b": 1},
        {"path": "/arguments/at", "a": [True], "b": [1]},
    ]


def test_markers_that_compare_by_type_are_no_changes() -> None:
    one, other = (
        build_document(
            [
                calls(
                    call(
                        "lamp",
                        key=f"[REDACTED:token:0000000{number}]",
                        say=f"{number} [REDACTED:a:1234567{number}]",
                    )
                )
            ]
        )
        for number in (1, 2)
    )
    other["conversation"]["id"] = "another"
    result = open_token.diff(one, other).as_json()["differences"][0]["changes"]
    assert result == [{"path": "/arguments/say", "a": "1 [REDACTED:a]", "b": "2 [REDACTED:a]"}]


def test_figures_of_a_side() -> None:
    side = open_token.diff(ONE, OTHER).a
    assert (side.steps, side.calls, side.failed, side.files, side.models) == (
        4,
        2,
        1,
        ["a.py"],
        ["some-model-1"],
    )


def test_equal_sessions_have_no_differences() -> None:
    result = open_token.diff(ONE, ONE).as_json()
    assert result["same"] is True
    assert (
        result["divergence"],
        result["first"],
        result["differences"],
        result["blast_radius"],
    ) == (
        None,
        None,
        [],
        0,
    )


def test_the_same_bytes_each_time() -> None:
    one, other = (msgspec.json.encode(open_token.diff(ONE, OTHER).as_json()) for _ in range(2))
    assert one == other
