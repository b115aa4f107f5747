"""`open-token replay`: which of its three parts is meant."""

import pytest

from conftest import ROOT
from open_token.cli import main
from open_token.cli.replay import HELP

TALK = str(ROOT / "examples" / "codex.jsonl")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "serve, check or view?"),
        (["srve", TALK], "did you mean `open-token replay serve`?"),
        (["view", TALK, "--", "ls"], "view takes no command"),
        (["serve", TALK, "--", "ls"], "serve takes no command"),
        (["check", TALK], "which command shall run?"),
        (["check", TALK, "--"], "which command shall run?"),
        (["check", TALK, "--within", "0", "--", "true"], "--within takes a number of seconds"),
        (["check", TALK, "--junit", ".", "--", "true"], "--junit takes a file"),
        (["serve", TALK, "--strict", "--any-order"], "exclude each other"),
        (["serve", TALK, "--port", "70000"], "--port takes a number"),
        (["serve", TALK, "--for", "cdex"], "did you mean codex?"),
        (["serve", TALK, "--on-miss", "live"], "invalid choice"),
    ],
)
def test_errors_say_what_to_do(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_the_words_of_the_command_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["replay", "check", TALK, "--quiet", "--", "sh", "-c", "exit 0", "--help", "--json"])
        == 1
    )
    assert HELP not in capsys.readouterr().out
