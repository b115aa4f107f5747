"""Outputs without runtime wrappers and volatile values."""

from typing import Any

import pytest

from open_token.comparison.outputs import mask_volatile, unwrap_output


@pytest.mark.parametrize(
    ("value", "action", "plain"),
    [
        (
            "Chunk ID: 1f\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhi\n",
            "run",
            "hi",
        ),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nhi\n", "run", "hi"),
        ("Exit code 1\n1 failed", "run", "1 failed"),
        ('{"output":"hi\\n","metadata":{"exit_code":0}}', "run", "hi"),
        ('{"output": broken', "run", '{"output": broken'),
        ('{"output":3}', "run", '{"output":3}'),
        (
            "Command: ls\nDirectory: (root)\nOutput: hi\nError: (none)\nExit Code: 0\nSignal: 0",
            "run",
            "hi",
        ),
        ("Output: (empty)\nError: (none)\nExit Code: 0", "run", ""),
        ("Output: 3 files", "run", "Output: 3 files"),
        ("Command: 3\nExit Code: 3", "run", "Command: 3\nExit Code: 3"),
        ("1\tx = 1\n2\ty = 2", "read", "x = 1\ny = 2"),
        ("     1→x = 1\n", "read", "x = 1"),
        ("1\tx = 1", "run", "1\tx = 1"),
        ([{"type": "text", "text": "a"}, "b"], "run", "a\nb"),
        ([{"type": "image"}], "run", [{"type": "image"}]),
        ([], "run", []),
        ({"a": 1}, "run", {"a": 1}),
        (None, "run", None),
    ],
)
def test_what_the_call_itself_gave(value: Any, action: str, plain: Any) -> None:
    assert unwrap_output(value, action) == plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 failed in 0.31s", "1 failed in 12.4s"),
        ("at 2026-03-01T10:00:00.5Z:", "at 2027-04-02 11:22:33+01:00:"),
        ("<x at 0x7f45c58d4a50>", "<x at 0x7f45c58d4b60>"),
        ("id 0199c0de-00ee-7000-8000-0000000000ee.", "id 1199c0de-00ee-7000-8000-0000000000ff."),
    ],
)
def test_what_is_new_each_time_is_the_same(one: str, other: str) -> None:
    assert mask_volatile(one) == mask_volatile(other)


@pytest.mark.parametrize(
    "text", ["3 failed", "v1.2.3", "x0.5s", "2026-03-01", "a-b-c-d-e", "10.0.0.1 up", "0x1f"]
)
def test_other_figures_stay(text: str) -> None:
    assert mask_volatile(text) == text
