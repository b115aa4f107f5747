"""`open-token replay`: which of its three parts is meant."""

import pytest

from conftest import ROOT
from open_token.cli import main
from open_token.cli.replay import HELP

SESSION = str(ROOT / "examples" / "codex.jsonl")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "replay needs a command: serve, check, view"),
        (["srve", SESSION], "did you mean `open-token replay serve`?"),
        (["view", SESSION, "--", "ls"], "`replay view` takes no COMMAND"),
        (["serve", SESSION, "--", "ls"], "`replay serve` takes no COMMAND"),
        (["check", SESSION], "`replay check` needs a COMMAND"),
        (["check", SESSION, "--"], "`replay check` needs a COMMAND"),
        (["check", SESSION, "--within", "0", "--", "true"], "--within must be a positive number"),
        (["check", SESSION, "--junit", ".", "--", "true"], "--junit must be a file"),
        (["serve", SESSION, "--strict", "--any-order"], "are mutually exclusive"),
        (["serve", SESSION, "--port", "70000"], "--port must be between"),
        (["serve", SESSION, "--for", "cdex"], "did you mean codex?"),
        (["serve", SESSION, "--on-miss", "live"], "invalid choice"),
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
        main(
            ["replay", "check", SESSION, "--quiet", "--", "sh", "-c", "exit 0", "--help", "--json"]
        )
        == 1
    )
    assert HELP.summary not in capsys.readouterr().out
