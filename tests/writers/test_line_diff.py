"""Line diffs: minimal, correct, and in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.writers.line_diff import (
    FileChange,
    Line,
    count_common_ends,
    diff_lines,
    parse_patch,
    trim_context,
)


@pytest.mark.parametrize(
    ("old", "new", "marks"),
    [
        ("a\nb\nc", "a\nb\nc", "   "),
        ("a\nb\nc", "a\nx\nc", " -+ "),
        ("", "a\nb\n", "++"),
        ("a\n", "", "-"),
        ("numpy\nscipy\ntorch", "numpy\nscipy\ntorch\njupyter\nkernel", "   ++"),
        ("{\n}\n{\n}", "{\n}\n{\nx\n}", "   + "),
    ],
)
def test_lines_have_their_operations(old: str, new: str, marks: str) -> None:
    assert "".join(line.op for line in diff_lines(old, new)) == marks


@given(
    st.lists(st.sampled_from("abcd\n"), max_size=30),
    st.lists(st.sampled_from("abcd\n"), max_size=30),
)
def test_both_texts_come_back(old: list[str], new: list[str]) -> None:
    lines = diff_lines("\n".join(old), "\n".join(new))
    for marks, text in ((" -", "\n".join(old)), (" +", "\n".join(new))):
        kept = "\n".join(line.text for line in lines if line.op in marks)
        assert kept in (text, text.removesuffix("\n"))


def count_changes(old: str, new: str) -> tuple[int, int]:
    change = FileChange("notes.txt", old, new)
    assert change.added == sum(line.op == "+" for line in change.lines)
    return change.added, change.removed


def test_large_texts_without_a_line_in_common_end() -> None:
    assert count_changes("a\n" * 50_000, "b\n" * 50_000) == (50_000, 50_000)
    many = [f"line {n}" for n in range(30_000)]
    assert count_changes("\n".join(many), "\n".join(many[::-1])) == (29_999, 29_999)
    assert count_changes("x\ny\n" * 20_000, "y\nx\n" * 20_000)[0] >= 1


def test_trim_context_leaves_out_unchanged_lines() -> None:
    lines = (
        [Line(" ", str(n)) for n in range(10)]
        + [Line("+", "new")]
        + [Line(" ", str(n)) for n in range(10)]
    )
    result = trim_context(lines)
    assert [line.op for line in result] == ["@", " ", " ", " ", "+", " ", " ", " ", "@"]
    assert result[0].text == "7 unchanged lines"
    assert trim_context([Line(" ", "a")]) == []


def test_middle_of_two_lines() -> None:
    assert count_common_ends("hours=24)", "days=1)") == (0, 1)
    assert count_common_ends("aaa", "aaaa") == (3, 0)


def test_patches_of_agents_are_read() -> None:
    text = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n x\n-y\n+z\n*** Add File: b.py\n+new\n*** End Patch"
    result = [
        (change.path, change.verb, change.added, change.removed) for change in parse_patch(text)
    ]
    assert result == [("a.py", "", 1, 1), ("b.py", "new", 1, 0)]
    unified = "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-old\n+new"
    assert [(change.path, change.added, change.removed) for change in parse_patch(unified)] == [
        ("x.c", 1, 1)
    ]
    assert parse_patch("no patch at all\n+1") == []
