"""The one-line summary of a call, for the tools of all runtimes."""

from typing import Any

import pytest

from helpers.handoff_conversation import build_call, build_result
from open_token.writers.rows import (
    Row,
    build_row,
    format_count,
    format_duration,
    parse_plan,
    parse_questions,
    parse_time,
    split_content,
    split_output,
)
from open_token.writers.timeline import Item

EDIT = {"file_path": "a.py", "old_string": "a\nb\nc", "new_string": "a\nx\ny\nc"}
PATCH = "*** Begin Patch\n*** Update File: a.py\n-a\n+b\n*** Add File: b.py\n+c\n*** End Patch"
TODOS = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]


def row(
    tool: str, output: str = "l1\nl2", facts: dict[str, Any] | None = None, **arguments: Any
) -> Row:
    use: Any = {**build_call(1, tool, **arguments), "ts": "2026-03-01T10:00:00Z"}
    result: Any = {**build_result(1, output), "ts": "2026-03-01T10:00:02Z"}
    return build_row(Item("call", use, result=result, facts=facts or {}))


@pytest.mark.parametrize(
    ("tool", "arguments", "target", "outcome"),
    [
        ("Bash", {"command": "cd /x && make test\nmore"}, "make test", ["2 lines", "2.0 s"]),
        (
            "shell",
            {"command": ["bash", "-lc", "ls -l"], "workdir": "/"},
            "ls -l",
            ["2 lines", "2.0 s"],
        ),
        ("exec_command", {"cmd": "# why\npwd"}, "pwd", ["2 lines", "2.0 s"]),
        ("run_shell_command", {"command": "ls"}, "ls", ["2 lines", "2.0 s"]),
        ("run_terminal_cmd", {"command": "ls"}, "ls", ["2 lines", "2.0 s"]),
        ("mcp__box__execute", {"command": "ls"}, "ls", ["2 lines", "2.0 s"]),
        ("Edit", EDIT, "a.py", ["+2 -1", "2.0 s"]),
        ("edit", {"path": "a.py", "oldText": "a", "newText": "b"}, "a.py", ["+1 -1", "2.0 s"]),
        ("MultiEdit", {"file_path": "a.py", "edits": [EDIT, EDIT]}, "a.py", ["+4 -2", "2.0 s"]),
        ("replace", {**EDIT, "instruction": "x"}, "a.py", ["+2 -1", "2.0 s"]),
        ("apply_patch", {"input": PATCH}, "a.py, b.py", ["+2 -1", "2.0 s"]),
        (
            "str_replace_editor",
            {"command": "create", "path": "n", "file_text": "a\nb\n"},
            "n",
            ["+2 -0", "2.0 s"],
        ),
        ("str_replace_editor", {"command": "view", "path": "n"}, "n", ["2 lines", "2.0 s"]),
        ("Write", {"file_path": "n.py", "content": "a\n"}, "n.py", ["+1 -0", "2.0 s"]),
        (
            "Read",
            {"file_path": "a.py", "offset": 5, "limit": 10},
            "a.py:5-14",
            ["2 lines", "2.0 s"],
        ),
        ("read_file", {"absolute_path": "/a"}, "/a", ["2 lines", "2.0 s"]),
        ("Grep", {"pattern": "x.*y", "path": "src"}, "x.*y in src", ["2 lines", "2.0 s"]),
        ("glob", {"pattern": "**/*.py"}, "**/*.py", ["2 lines", "2.0 s"]),
        ("TodoWrite", {"todos": TODOS}, "two", ["1/2 done", "2.0 s"]),
        (
            "update_plan",
            {"plan": [{"step": "s", "status": "completed"}]},
            "all done",
            ["1/1 done", "2.0 s"],
        ),
        ("WebSearch", {"query": "tides"}, "tides", ["2.0 s"]),
        ("web_fetch", {"url": "https://a.test/x"}, "https://a.test/x", ["2.0 s"]),
        (
            "Task",
            {"subagent_type": "explore", "description": "Find it"},
            "explore: Find it",
            ["2.0 s"],
        ),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, "Which?", ["2.0 s"]),
        ("mcp__x__odd", {"n": 3, "name": "Sam"}, "Sam", ["2.0 s"]),
        ("nothing", {}, "", ["2.0 s"]),
    ],
)
def test_row_says_verb_object_and_outcome(
    tool: str, arguments: Any, target: str, outcome: list[str]
) -> None:
    made = row(tool, **arguments)
    assert (made.target, made.outcome) == (target, outcome)


def test_failure_is_a_word_and_is_never_guessed() -> None:
    assert row("Bash", "Error: it failed", command="x").outcome == ["1 line", "2.0 s"]
    assert row("Bash", facts={"exit_code": 2, "duration_seconds": 14.7}, command="x").outcome == [
        "failed", "exit 2", "14.7 s",
    ]  # fmt: skip
    assert row("Bash", facts={"exit_code": 0}, command="x").failed is False
    assert row("Edit", facts={"is_error": True, "rejected": True}, **EDIT).outcome[0] == "rejected"


def test_missing_result_is_noted() -> None:
    use: Any = build_call(1, "Bash", command="x")
    assert build_row(Item("call", use)).outcome == ["no result recorded"]


def test_text_of_blocks() -> None:
    event = {"content": {"data": [{"type": "text", "text": "a"}, "b", {"output": "c"}, {"x": 1}]}}
    assert split_content(event) == ("a\nb\nc", [{"x": 1}])
    assert split_content({"content": None}) == ("", [])


def test_short_texts() -> None:
    assert [format_duration(n) for n in (0, 59.94, 60, 3600, 90_000, 400_000)] == [
        "0.0 s", "59.9 s", "1 min", "1 h 00 min", "25 h 00 min", "5 days",
    ]  # fmt: skip
    assert (format_count(1, "call"), format_count(2000, "call")) == ("1 call", "2,000 calls")
    assert parse_time({"ts": "not a time"}) is None
    assert (
        parse_time({"ts": "1970-01-01T00:00:10"})
        == parse_time({"ts": "1970-01-01T00:00:10Z"})
        == 10
    )
    assert parse_plan({"todos": "x"}) == parse_questions({"questions": 3}) == []


def test_output_that_codex_wrapped_in_json_is_read_as_output() -> None:
    wrapped = '{"output":"a\\nb\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}'
    facts = [{"metadata": {"exit_code": 0, "duration_seconds": 0.1}}]
    assert split_output({"content": {"text": wrapped}}) == ("a\nb\n", facts)
    others = (
        '{"output":"a"',
        '{"output":1}',
        '{"output":"a","rows":[]}',
        '{"output":' + "[" * 100_000,
    )
    assert all(split_output({"content": {"text": text}}) == (text, []) for text in others)
