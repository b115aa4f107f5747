"""When text that an agent sends counts as the recorded text."""

from typing import Any

import pytest

from open_token.replay.equivalence import (
    Equivalence,
    list_path_names,
    strip_runtime_lines,
    strip_tagged_notes,
)

HERE = Equivalence(folders=("/home/ada/desk", "/tmp/project"))
MARK = "[REDACTED:password:" + "0" * 8 + "]"


@pytest.mark.parametrize(
    ("recorded", "given"),
    [
        ("Fix it", "Fix it"),
        ("Fix it", '"Fix it"'),
        ("Fix it", "Fix  it\n"),
        ("Fix it", "<system-reminder>\nBe kind.\n</system-reminder>\nFix it"),
        ("<note>then</note>Fix it", "Fix it<note>now</note>"),
        ("Look at /home/ada/desk/a", "Look at /tmp/project/a"),
        (f"Log in with {MARK} now", "Log in with plum-7 now"),
        (f"{MARK} and {MARK}", "plum and pear"),
        ("a[TRUNCATED]z", "a and so on to z"),
        ("<task-id>a1</task-id><summary>x</summary>", "<task-id>b2</task-id><summary>x</summary>"),
    ],
)
def test_prompts_that_are_the_same(recorded: str, given: str) -> None:
    assert HERE.matches_prompt(recorded, given)


@pytest.mark.parametrize(
    ("recorded", "given"),
    [
        ("Fix it", "Fix it now"),
        ("Fix it", "fix it"),
        ("Fix it", ""),
        ("Fix it", "<b>Fix it</b>"),
        ("<note>x</note>", "<note>y</note>"),
        ("<task-id>a1</task-id><summary>x</summary>", "<task-id>b2</task-id><summary>y</summary>"),
        (f"Log in with {MARK} now", "Log in with plum-7 later"),
        (f"a{MARK}b{MARK}a", "aba"),
        ("wait 5 s", "wait 6 s"),
    ],
)
def test_prompts_that_are_not(recorded: str, given: str) -> None:
    if recorded == f"a{MARK}b{MARK}a":
        assert HERE.matches_prompt(recorded, given)  # a mark may stand for nothing at all
    else:
        assert not HERE.matches_prompt(recorded, given)


@pytest.mark.parametrize(
    ("recorded", "given"),
    [
        ("1 failed in 0.31s", "1 failed in 0.44s"),
        (
            "Chunk ID: a1\nWall time: 0.1 seconds\nOutput:\nhi",
            "Chunk ID: b2\nWall time: 3 seconds\nOutput:\nhi",
        ),
        ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhi\n", "hi"),
        ("Exit code 1\nno such file", "no such file"),
        ('{"output":"hi\\n","metadata":{"exit_code":0}}', "hi"),
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
        ("/home/ada/desk/a.txt", "/tmp/project/a.txt"),
        ("at 2026-01-02T03:04:05Z in /tmp/x1y2", "at 2026-11-16 12:00:00 in /tmp/zz"),
        ("(empty)", ""),
        ("agentId: ac4fbd24 (internal)", "agentId: a728c0dc (internal)"),
        ("a\r\nb", "a\nb"),
        ("hi\n<exited with exit code 0>", "hi"),
        (f"KEY={MARK}\n", "KEY=plum\n"),
    ],
)
def test_results_that_are_the_same(recorded: str, given: str) -> None:
    assert HERE.matches_result(recorded, given)
    assert not HERE.matches_result(recorded + " x", given)


def test_arguments() -> None:
    pairs: list[tuple[Any, Any, bool]] = [
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"path": "/home/ada/desk/x"}, {"path": "/tmp/project/x"}, True),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"wait": "5 s"}, {"wait": "6 s"}, False),
        ({"key": MARK}, {"key": "plum"}, True),
        (None, {}, False),
    ]
    assert [HERE.matches_value(recorded, given) for recorded, given, _ in pairs] == [
        same for _, _, same in pairs
    ]


def test_folders_by_every_name() -> None:
    assert list_path_names(["/home/ada/desk", "/tmp", "/"]) == (
        "-home-ada-desk",
        "/home/ada/desk",
        "-tmp",
        "/tmp",
    )
    here = Equivalence(folders=list_path_names(["/home/ada/desk", "/srv/x"]))
    assert here.matches_result("see -home-ada-desk/1", "see -srv-x/1")
    assert here.normalize("in 0.3s at /srv/x") == "in <duration> at <cwd>"


def test_exact_means_exact() -> None:
    exact = Equivalence(exact=True)
    assert exact.matches_prompt("a", "a")
    assert not exact.matches_prompt("a", "a ")
    assert not exact.matches_result("in 0.1s", "in 0.2s")
    assert exact.matches_result(f"x {MARK}", "x plum")


def test_what_looks_like_json_or_a_tag_and_is_none() -> None:
    assert strip_runtime_lines("{not json") == "{not json"
    assert strip_runtime_lines("[" * 5000) == "[" * 5000
    assert strip_tagged_notes("a < b and <open> c") == "a < b and <open> c"
    assert strip_tagged_notes("<a>" * 20_000) == "<a>" * 20_000
