"""What `skill` and `hook` share: installing something into agents, and removing it."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from open_token.errors import UsageError
from open_token.library.skills import AUTO, SCOPES
from open_token.options import suggest_match

ACTION_LABELS = {
    "write": ("wrote", "would write"),
    "update": ("updated", "would update"),
    "remove": ("removed", "would remove"),
    "same": ("unchanged", "unchanged"),
}
"""What happened to a file, and what a dry run would do."""
_ALIASES = {"copilot": "copilot-cli"}


def add_install_arguments(
    parser: argparse.ArgumentParser, actions: Sequence[str], runtimes: str
) -> Any:
    """Add the action and the options of installing; return the group of the options."""
    parser.add_argument("action", metavar="COMMAND", choices=actions, help=argparse.SUPPRESS)
    group = parser.add_argument_group("Installation")
    group.add_argument(
        "--for",
        dest="runtimes",
        action="append",
        default=[],
        metavar="AGENT",
        help=f"{runtimes}; auto: every agent found here. May be repeated",
    )
    group.add_argument(
        "--scope",
        choices=SCOPES,
        help="user: everywhere [default]; project: this folder only",
    )
    group.add_argument(
        "--dry-run", action="store_true", help="Show what would be done, change nothing"
    )
    return group


def check_install_arguments(
    args: argparse.Namespace, verb: str, known: Sequence[str], misplaced: Mapping[str, bool]
) -> None:
    """Raise for flags that do not belong to the action, and for unknown agents."""
    is_change = args.action in ("install", "uninstall")
    given = {"--for": bool(args.runtimes), "--scope": bool(args.scope), "--dry-run": args.dry_run}
    wrong = [flag for flag, is_given in given.items() if is_given and not is_change]
    wrong += [flag for flag, is_misplaced in misplaced.items() if is_misplaced]
    if wrong:
        raise UsageError(
            f"{wrong[0]} cannot be used with `{verb} {args.action}`",
            help=f"see `open-token {verb} --help`",
        )
    valid = [*known, AUTO]
    args.runtimes = [_ALIASES.get(name, name) for name in args.runtimes]
    if is_change and not args.runtimes:
        raise UsageError(
            f"`{verb} {args.action}` needs --for AGENT",
            help=f"available agents: {', '.join(valid)}",
        )
    for name in args.runtimes:
        if name not in valid:
            raise UsageError(
                f"`{verb}` does not support the agent {name!r}",
                help=f"{suggest_match(name, valid)}available agents: {', '.join(valid)}",
            )


def select_runtimes(args: argparse.Namespace, detect: Callable[[], list[str]]) -> list[str]:
    """Return the named agents; with `auto` also the detected ones."""
    named = [name for name in args.runtimes if name != AUTO]
    if AUTO in args.runtimes:
        named = [*detect(), *named]
    return list(dict.fromkeys(named))
