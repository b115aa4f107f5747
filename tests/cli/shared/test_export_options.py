"""The export options of a command line: words and flags, and warnings for those without effect."""

import argparse

import pytest

from open_token.cli.shared.console import Console
from open_token.cli.shared.export_options import (
    add_export_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.context import Policy
from open_token.errors import UsageError
from open_token.options import OPTIONS, ExportOptions


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_export_options(parser)
    return parser.parse_args(words)


def test_every_option_is_a_flag() -> None:
    for option in OPTIONS:
        for name in (option.name, option.name.replace("_", "-")):
            assert getattr(parsed(f"--{name}", "x"), f"option_{option.name}") == ["x"]


def test_what_is_said_wins_over_the_settings() -> None:
    args = parsed("--redact", "pii")
    assert resolve_export_options(
        args, {"mode": "ndjson"}, {"redact": "strict", "branches": "all"}
    ) == ExportOptions.of({"redact": "pii", "mode": "ndjson", "branches": "all"})


def test_the_same_twice_is_once() -> None:
    assert (
        resolve_export_options(
            parsed("--redact", "pii", "--redact", "pii"), {"redact": "pii"}, {}
        ).redact
        == "pii"
    )
    with pytest.raises(UsageError, match="redact is given more than once"):
        resolve_export_options(parsed("--redact", "pii"), {"redact": "none"}, {})


@pytest.mark.parametrize(
    ("options", "policy", "warning"),
    [
        ({"internal": "full"}, Policy(), "internal has no effect without include"),
        (
            {"include": "include-internal", "internal": "full"},
            Policy(forbid_internal_full=True),
            "the policy forbids internal=full",
        ),
        (
            {"redact": "none"},
            Policy(min_redact="pii"),
            "the policy requires at least redact=pii",
        ),
        (
            {"redact": "none"},
            Policy(never_export_private_keys=True),
            "the policy forbids exporting private keys",
        ),
        ({"redact": "secrets"}, Policy(never_export_private_keys=True, min_redact="secrets"), ""),
        ({"drop": "oldest"}, Policy(), "drop has no effect without max_bytes"),
        ({"mode": "ndjson", "pretty": "true"}, Policy(), "pretty has no effect with mode=ndjson"),
        ({}, Policy(), ""),
    ],
)
def test_warnings(
    options: dict[str, str], policy: Policy, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_about_options(ExportOptions.of(options), policy, Console({}))
    err = capsys.readouterr().err
    assert warning in err
    assert err.count("warning:") == bool(warning)
