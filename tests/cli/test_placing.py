"""For which runtimes `skill` and `hook` put something in place: flags and names that are refused,
and `auto`."""

import argparse

import pytest

from open_token.cli import placing
from open_token.errors import UsageError

KNOWN = ["claude-code", "codex"]


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    placing.add_arguments(parser, ("install", "uninstall", "status"))
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "--for", "codex"], "--for does not go with `hook status`"),
        (["status", "--scope", "user"], "--scope does not go with `hook status`"),
        (["status", "--dry-run"], "--dry-run does not go with `hook status`"),
        (["install"], "for which runtime?"),
        (["uninstall", "--dry-run"], "for which runtime?"),
        (
            ["install", "--for", "codx"],
            "did you mean codex? the runtimes are claude-code, codex, auto",
        ),
        (["install", "--for", "codex", "--for", "x"], "`hook` knows no runtime 'x'"),
    ],
)
def test_what_does_not_belong_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        placing.check(parsed(*words), "hook", KNOWN, {})
    assert said in str(refused.value)


def test_a_flag_of_the_verb_itself_is_refused_where_it_strays() -> None:
    with pytest.raises(UsageError, match="--to does not go with `hook uninstall`"):
        placing.check(parsed("uninstall", "--for", "auto"), "hook", KNOWN, {"--to": True})


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["codex", "codex"], ["codex"]),
        (["auto"], ["claude-code"]),
        (["codex", "auto"], ["claude-code", "codex"]),
        (["claude-code", "auto"], ["claude-code"]),
    ],
)
def test_auto_adds_what_is_found(words: list[str], wanted: list[str]) -> None:
    args = parsed("install", *(part for word in words for part in ("--for", word)))
    placing.check(args, "hook", KNOWN, {})
    assert placing.chosen(args, lambda: ["claude-code"]) == wanted


def test_nothing_is_looked_for_where_all_are_named() -> None:
    def found() -> list[str]:
        raise AssertionError

    assert placing.chosen(parsed("install", "--for", "codex"), found) == ["codex"]
