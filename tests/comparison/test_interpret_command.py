"""Actions of simple shell commands."""

import pytest

from open_token.comparison.actions import Action, interpret_command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat /w/a.py", ("read", "a.py")),
        ("sed -n '1,200p' src/a.py", ("read", "src/a.py")),
        ("nl -ba a.py | sed -n '3,9p'", ("read", "a.py")),
        ("rg -n tide src", ("search", "tide")),
        ("grep -rn 'a b'", ("search", "a b")),
        ("ls -la", ("list", ".")),
        ("ls src", ("list", "src")),
    ],
)
def test_a_simple_command_is_interpreted(command: str, expected: tuple[str, str]) -> None:
    made = interpret_command(Action("run", command, known=True), "/w")
    assert (made.name, made.target, made.shown) == (*expected, command)


@pytest.mark.parametrize(
    "command",
    [
        "cat a b",
        "cat a > b",
        "ls; rm a",
        "cat $(x)",
        "cat 'a",
        "sed -i s/a/b/ c",
        "make",
        "",
        "nl -ba a",
        "x" * 500,
    ],
)
def test_what_could_mean_more_stays_a_command(command: str) -> None:
    action = Action("run", command, known=True)
    assert interpret_command(action, "/w") is action


def test_only_commands_are_interpreted() -> None:
    action = Action("search", "cat a", known=True)
    assert interpret_command(action, "") is action
