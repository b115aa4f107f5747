"""Actions of tool calls, whatever their tools are called."""

from typing import Any

import pytest

from open_token.comparison.actions import (
    extract_changed_lines,
    parse_action,
    relativize_text,
    to_relative_path,
)

PATCH = "*** Begin Patch\n*** Update File: /w/a.py\n@@\n-x = 1\n+x = 2\n y = 3\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Bash", {"command": "ls -l "}, ("run", "ls -l")),
        ("exec_command", {"cmd": "cd /w && ls -l"}, ("run", "ls -l")),
        ("shell", {"command": ["bash", "-lc", "ls -l"]}, ("run", "ls -l")),
        ("shell", {"command": ["ls", "-l"]}, ("run", "ls -l")),
        ("run_shell_command", {"command": "cat /w/a.py"}, ("run", "cat a.py")),
        ("Read", {"file_path": "/w/a.py"}, ("read", "a.py")),
        ("read_file_v2", {"targetFile": "a.py"}, ("read", "a.py")),
        ("developer__shell", {"command": "ls"}, ("run", "ls")),
        ("Edit", {"file_path": "./a.py", "old_string": "x"}, ("edit", "a.py")),
        ("apply_patch", {"input": PATCH}, ("edit", "a.py")),
        ("apply_patch", {"raw": PATCH.replace("Update", "Add")}, ("write", "a.py")),
        ("apply_patch", {"changes": {"/w/a.py": {}, "b.py": {}}}, ("edit", "a.py b.py")),
        ("str_replace_editor", {"command": "view", "path": "/w"}, ("read", ".")),
        ("str_replace_editor", {"command": "create", "path": "/w/c"}, ("write", "c")),
        ("Grep", {"pattern": "tide", "path": "src"}, ("search", "tide")),
        ("WebFetch", {"url": "https://example.test"}, ("fetch", "https://example.test")),
        ("Bash", {"command": {"odd": 1}}, ("run", "")),
        ("Bash", None, ("run", "")),
    ],
)
def test_action_and_target(tool: str, arguments: Any, expected: tuple[str, str]) -> None:
    made = parse_action(tool, arguments, "/w")
    assert (made.name, made.target, made.known) == (*expected, True)


@pytest.mark.parametrize("tool", ["lighthouse", "str_replace_editor", "mcp__files__read", ""])
def test_an_unknown_tool_is_an_action_by_its_own_name(tool: str) -> None:
    made = parse_action(tool, {"command": "blink"}, "")
    assert (made.name, made.target, made.known) == (tool, "", False)


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/w/a", "a"),
        ("/w", "."),
        ("/w/", "."),
        ("/woods/a", "/woods/a"),
        ("./a", "a"),
        ("./", "."),
        ("a", "a"),
    ],
)
def test_a_path_from_the_own_folder(path: str, seen: str) -> None:
    assert to_relative_path(path, "/w") == seen


def test_a_text_from_the_own_folder() -> None:
    assert (
        relativize_text("in /w/a.py and /w, not /w2/a or /woods", "/w")
        == "in a.py and ., not /w2/a or /woods"
    )
    assert relativize_text("/w/a", "") == "/w/a"
    for longer in ("/usr/w/a", "x/w/a.py", "~/w/a", "../w", "/w-x/a"):
        assert relativize_text(longer, "/w") == longer
    assert relativize_text('"/w/a" file:///w/a --in=/w', "/w") == '"a" file://a --in=.'


def test_an_edit_and_a_patch_change_the_same_lines() -> None:
    edit = {"old_string": "x = 1\ny = 3", "new_string": "x = 2\ny = 3"}
    assert (
        extract_changed_lines(edit)
        == extract_changed_lines({"input": PATCH})
        == (["x = 1"], ["x = 2"])
    )
    assert extract_changed_lines({"edits": [edit, 3]}) == (["x = 1"], ["x = 2"])
    assert extract_changed_lines({"content": "a\n\nb"}) == ([], ["a", "b"])
    assert extract_changed_lines(None) == ([], [])
