"""`open-token query`: SQL over a dataset."""

import argparse
import sys

from open_token.cli.dataset import require_packages
from open_token.cli.shared.console import Console, escape_controls, print_table
from open_token.cli.shared.help import Help, Section
from open_token.errors import UsageError

HELP = Help(
    summary="Run SQL over a dataset that `open-token dataset` wrote.",
    usage=("query SQL DIR [--csv | --json]",),
    sections=(
        Section(
            "Arguments",
            (
                ("SQL", "One statement, in the dialect of DuckDB"),
                ("DIR", "The folder or URL of the dataset"),
            ),
        ),
    ),
    notes=(
        "Views: sessions (one row a conversation), events, calls (with their output), usage "
        "(tokens by response). A statement can read this dataset and no other file.",
    ),
    exit_codes=(("0", "Done"), ("2", "Invalid usage or SQL"), ("3", "Cannot read")),
    examples=(
        ('open-token query "select runtime, count(*) from sessions group by 1" traces', ""),
        ('open-token query "describe calls" traces', "The columns of a view"),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the statement, the dataset and the form of the answer."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    group = parser.add_argument_group("Output")
    group.add_argument("--csv", action="store_true", help="Print CSV with a header")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the statement and print its rows."""
    if len(args.words) != 2:
        raise UsageError(
            f"expected a statement and a dataset, got {len(args.words)} arguments",
            help='for example open-token query "select * from sessions" DIR',
        )
    require_packages()
    from open_token.dataset.query import query

    statement, location = args.words
    if "://" not in location:
        location = str(console.cwd / location)
    result = query(statement, location)
    if args.json:
        rows = [dict(zip(result.columns, map(_to_json, row), strict=True)) for row in result.rows]
        console.print_json(rows)
    elif args.csv:
        result.write_csv(sys.stdout)
    else:
        headings = tuple(map(escape_controls, result.columns))
        print_table(headings, [tuple(map(_to_cell, row)) for row in result.rows], console)
    return 0


def _to_json(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    return str(value)


def _to_cell(value: object) -> str:
    return "" if value is None else escape_controls(str(value))
