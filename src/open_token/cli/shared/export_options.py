"""The export options on a command line: as `key=value` words or as `--key value` flags."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from open_token.cli.shared.console import Console
from open_token.context import Policy
from open_token.errors import UsageError
from open_token.model.document import REDACTION_MODES
from open_token.options import OPTION_NAMES, OPTIONS, ExportOptions, Option


def describe_options(names: Iterable[str] = OPTION_NAMES) -> str:
    """Return a note for the help of commands that take export options without listing them."""
    return (
        "Options of `open-token export` that apply, as --key value or key=value: "
        f"{', '.join(names)}."
    )


def add_export_options(parser: argparse.ArgumentParser, *, is_listed: bool = False) -> None:
    """Add every export option as a flag; `is_listed` shows them in the help, by group."""
    groups: dict[str, Any] = {}
    for option in OPTIONS:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        groups[option.group].add_argument(
            *sorted({f"--{option.name}", f"--{option.name.replace('_', '-')}"}),
            dest=f"option_{option.name}",
            metavar=option.metavar,
            action="append",
            default=[],
            help=_describe(option) if is_listed else argparse.SUPPRESS,
        )


def _describe(option: Option) -> str:
    if option.free:
        values = [*option.values, option.free]
    else:
        values = list(option.values)
    choices = f": {', '.join(values)}" if option.values else ""
    return f"{option.meaning}{choices} [default: {option.default}]"


def resolve_export_options(
    args: argparse.Namespace, words: Mapping[str, str], defaults: Mapping[str, Any]
) -> ExportOptions:
    """Return the options from words and flags, else from the settings."""
    values = dict(defaults)
    for option in OPTIONS:
        given = set(getattr(args, f"option_{option.name}"))
        if option.name in words:
            given.add(words[option.name])
        if len(given) > 1:
            raise UsageError(
                f"{option.name} is given more than once",
                help=f"keep one {option.name}=VALUE",
            )
        if given:
            values[option.name] = given.pop()
    return ExportOptions.of(values)


def warn_about_options(options: ExportOptions, policy: Policy, console: Console) -> None:
    """Warn about options without effect, and about those that the policy overrides."""
    if options.internal != "redacted" and options.include != "include-internal":
        console.warn("internal has no effect without include=include-internal")
    elif options.internal == "full" and policy.forbid_internal_full:
        console.warn("the policy forbids internal=full; using internal=summary")
    if REDACTION_MODES.index(options.redact) < REDACTION_MODES.index(policy.min_redact):
        console.warn(f"the policy requires at least redact={policy.min_redact}; using that")
    elif options.redact == "none" and policy.never_export_private_keys:
        console.warn("the policy forbids exporting private keys; they are masked")
    if options.drop == "oldest" and options.max_bytes is None:
        console.warn("drop has no effect without max_bytes")
    if options.pretty and options.mode == "ndjson":
        console.warn("pretty has no effect with mode=ndjson: each record is one line")
