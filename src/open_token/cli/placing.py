"""What the verbs `skill` and `hook` share: for which runtimes something of ours is put in its place
or taken away."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from open_token.errors import UsageError
from open_token.locallib.skills import AUTO, SCOPES

SAID = {
    "write": ("wrote", "would write"),
    "update": ("updated", "would update"),
    "remove": ("removed", "would remove"),
    "same": ("same", "same"),
}
"""What became of a file, and what would."""


def add_arguments(parser: argparse.ArgumentParser, actions: Sequence[str]) -> None:
    """One word for the action; which flags belong to it is checked by hand."""
    parser.add_argument("action", choices=actions)
    parser.add_argument("--for", dest="runtimes", action="append", default=[])
    parser.add_argument("--scope", choices=SCOPES)
    parser.add_argument("--dry-run", action="store_true")


def check(
    args: argparse.Namespace, verb: str, known: Sequence[str], strays: Mapping[str, bool]
) -> None:
    """Refuse flags that do not belong to the action, and runtimes that the verb does not know."""
    changing = args.action in ("install", "uninstall")
    given = {"--for": bool(args.runtimes), "--scope": bool(args.scope), "--dry-run": args.dry_run}
    strays = {flag: is_given and not changing for flag, is_given in given.items()} | dict(strays)
    for flag in (flag for flag, is_stray in strays.items() if is_stray):
        raise UsageError(
            f"{flag} does not go with `{verb} {args.action}`",
            help=f"see `open-token {verb} --help`",
        )
    valid = [*known, AUTO]
    if changing and not args.runtimes:
        raise UsageError(
            "for which runtime?", help=f"say --for RUNTIME; the runtimes are {', '.join(valid)}"
        )
    for name in args.runtimes:
        if name not in valid:
            near = get_close_matches(name, valid, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"`{verb}` knows no runtime {name!r}",
                help=f"{guess}the runtimes are {', '.join(valid)}",
            )


def chosen(args: argparse.Namespace, found: Callable[[], list[str]]) -> list[str]:
    """The runtimes that are named; for `auto` also those that are found."""
    named = [name for name in args.runtimes if name != AUTO]
    return list(dict.fromkeys(named if len(named) == len(args.runtimes) else [*found(), *named]))
