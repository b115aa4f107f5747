"""The export options on a command line: as words or flags, with a warning for what will not do what
was asked."""

import argparse
from collections.abc import Mapping
from typing import Any

from open_token.cli.console import Console
from open_token.context import Policy
from open_token.errors import UsageError
from open_token.model import REDACTION_MODES
from open_token.options import TABLE, ExportOptions


def add_options(parser: argparse.ArgumentParser) -> None:
    """Every option as a flag."""
    for option in TABLE:
        names = {f"--{option.name}", f"--{option.name.replace('_', '-')}"}
        parser.add_argument(
            *sorted(names),
            dest=f"option_{option.name}",
            metavar="VALUE",
            action="append",
            default=[],
        )


def wanted_options(
    args: argparse.Namespace, words: Mapping[str, str], defaults: Mapping[str, Any]
) -> ExportOptions:
    """The options that were given as words or flags, before those of the settings."""
    chosen = dict(defaults)
    for option in TABLE:
        said = {*getattr(args, f"option_{option.name}")} | (
            {words[option.name]} if option.name in words else set()
        )
        if len(said) > 1:
            raise UsageError(f"{option.name} is given twice", help=f"keep one {option.name}=VALUE")
        if said:
            chosen[option.name] = said.pop()
    return ExportOptions.of(chosen)


def warn(options: ExportOptions, policy: Policy, console: Console) -> None:
    """Say which options will not do what was asked."""
    if options.internal != "redacted" and options.include != "include-internal":
        console.warn("internal has no effect without include=include-internal")
    elif options.internal == "full" and policy.forbid_internal_full:
        console.warn(
            "the policy forbids internal=full; hidden reasoning is exported as internal=summary"
        )
    if REDACTION_MODES.index(options.redact) < REDACTION_MODES.index(policy.min_redact):
        console.warn(f"the policy asks for redact={policy.min_redact} at least; that is done")
    elif options.redact == "none" and policy.never_export_private_keys:
        console.warn("the policy never lets private keys out; they are masked")
    if options.drop == "oldest" and options.max_bytes is None:
        console.warn("drop has no effect without max_bytes")
    if options.pretty and options.mode == "ndjson":
        console.warn("pretty has no effect with mode=ndjson, whose records are one line each")
