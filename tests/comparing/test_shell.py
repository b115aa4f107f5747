"""What simple shell commands do."""

import pytest

from open_token.comparing.deeds import Deed
from open_token.comparing.shell import spoken


@pytest.mark.parametrize(
    ("command", "deed"),
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
def test_a_plain_command_is_what_it_does(command: str, deed: tuple[str, str]) -> None:
    made = spoken(Deed("run", command, known=True), "/w")
    assert (made.name, made.target, made.shown) == (*deed, command)


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
    deed = Deed("run", command, known=True)
    assert spoken(deed, "/w") is deed


def test_only_commands_are_heard() -> None:
    deed = Deed("search", "cat a", known=True)
    assert spoken(deed, "") is deed
