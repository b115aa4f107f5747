"""For which runtimes `skill` and `hook` put something in place: flags and names that are refused,
and `auto`."""

import argparse

import pytest

from open_token.cli.shared import installation
from open_token.errors import UsageError

KNOWN = ["claude-code", "codex"]


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    installation.add_install_arguments(parser, ("install", "uninstall", "status"), "agents")
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "--for", "codex"], "--for cannot be used with `hook status`"),
        (["status", "--scope", "user"], "--scope cannot be used with `hook status`"),
        (["status", "--dry-run"], "--dry-run cannot be used with `hook status`"),
        (["install"], "needs --for AGENT"),
        (["uninstall", "--dry-run"], "needs --for AGENT"),
        (
            ["install", "--for", "codx"],
            "did you mean codex? available agents: claude-code, codex, auto",
        ),
        (["install", "--for", "codex", "--for", "x"], "`hook` does not support the agent 'x'"),
    ],
)
def test_what_does_not_belong_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        installation.check_install_arguments(parsed(*words), "hook", KNOWN, {})
    assert said in str(refused.value)


def test_a_flag_of_the_verb_itself_is_refused_where_it_strays() -> None:
    with pytest.raises(UsageError, match="--to cannot be used with `hook uninstall`"):
        installation.check_install_arguments(
            parsed("uninstall", "--for", "auto"), "hook", KNOWN, {"--to": True}
        )


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
    installation.check_install_arguments(args, "hook", KNOWN, {})
    assert installation.select_runtimes(args, lambda: ["claude-code"]) == wanted


def test_nothing_is_looked_for_where_all_are_named() -> None:
    def found() -> list[str]:
        raise AssertionError

    assert installation.select_runtimes(parsed("install", "--for", "codex"), found) == ["codex"]
