"""`open-token stats`: what was done and used in all sessions, with estimated cost."""

import argparse
import csv
import io
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from open_token.cli.sessions import parse_time
from open_token.cli.shared.console import (
    Console,
    count_columns,
    escape_controls,
    pluralize,
    truncate_to_columns,
)
from open_token.cli.shared.help import Help
from open_token.cli.shared.indexing import open_index
from open_token.cli.shared.source_selection import check_reader_name
from open_token.errors import UsageError
from open_token.jsontools.timestamps import from_epoch
from open_token.library.index.stats import GROUPS, Block, Counts, Stats, StatsFilter
from open_token.library.prices import PRICE_FILE, PriceList
from open_token.settings import load_settings

HELP = Help(
    summary="Count sessions, prompts, calls, tokens and estimated cost.",
    usage=("stats [OPTIONS]",),
    notes=(
        "Every response is counted once, also if sessions were forked, resumed or handed over. "
        "Input does not include cached tokens; output includes reasoning. Costs are estimates "
        f"from public prices, in US dollars; {PRICE_FILE} in your settings folder overrides "
        "them. Models without a known price are named, not guessed.",
        "TIME is an age (12h, 2d, 3w), a day or an RFC 3339 time. Days are local.",
    ),
    exit_codes=(("0", "Counted"), ("1", "Nothing to count"), ("2", "Invalid usage")),
    examples=(
        ("open-token stats --since 2w", "The last two weeks, by day"),
        ("open-token stats --by project --csv > usage.csv", ""),
        ("open-token stats --blocks", "Five-hour blocks, as subscription limits count"),
    ),
)
# What a narrow screen does without, in this order.
_DISPENSABLE = ("reasoning", "cache write", "failed", "prompts", "sessions", "calls", "cache read")
_MIN_NAME = 12
_HEADINGS = (
    "sessions",
    "prompts",
    "calls",
    "failed",
    "input",
    "cache read",
    "cache write",
    "output",
    "reasoning",
    "cost",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add grouping, filters and output."""
    grouping = parser.add_argument_group("Grouping")
    grouping.add_argument(
        "--by", metavar="GROUP", default="day", help=f"{', '.join(GROUPS)} [default: day]"
    )
    grouping.add_argument("--blocks", action="store_true", help="Group by five-hour blocks")
    selection = parser.add_argument_group("Selection")
    selection.add_argument("--agent", metavar="READER", help="Only sessions of an agent")
    selection.add_argument("--here", action="store_true", help="Only sessions of this folder")
    selection.add_argument(
        "--project", metavar="NAME", default="", help="Only sessions with NAME in their folder"
    )
    selection.add_argument("--since", metavar="TIME", help="Only what happened since TIME")
    selection.add_argument("--until", metavar="TIME", help="Only what happened until TIME")
    output = parser.add_argument_group("Output")
    output.add_argument("--csv", action="store_true", help="Print comma-separated values")
    output.add_argument(
        "--no-update", action="store_true", help="Use the index as it is, without updating it"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Count and print."""
    if args.by not in GROUPS:
        raise UsageError(f"unknown group '{args.by[:40]}'", help=f"--by takes {', '.join(GROUPS)}")
    if args.csv and args.json:
        raise UsageError("--csv and --json are mutually exclusive", help="use one of them")
    wanted = build_filter(args, console)
    folders = load_settings(console.env, console.cwd).folders
    prices = PriceList(folders.cache, folders.settings)
    with open_index(console, update=not args.no_update) as index:
        reader = index.read_stats(prices)
        if args.blocks:
            blocks = reader.list_blocks(wanted)
            _print_blocks(blocks, args, console)
            return 0 if blocks else 1
        stats = reader.count(args.by, wanted)
        titles = {}
        if args.by == "session":
            titles = {name: reader.find_title(name) for name in stats.groups}
    _print_stats(stats, titles, args, console)
    _print_remarks(stats, prices, console)
    return 0 if stats.groups else 1


def build_filter(args: argparse.Namespace, console: Console) -> StatsFilter:
    """Return the filter that the arguments ask for."""
    if args.agent:
        check_reader_name(args.agent)
    return StatsFilter(
        agent=str(args.agent or "").replace("-", "_"),
        folder=str(console.cwd) if args.here else "",
        project=args.project,
        since=parse_time(args.since, "--since"),
        until=parse_time(args.until, "--until", is_end=True),
    )


def _print_stats(
    stats: Stats, titles: dict[str, str], args: argparse.Namespace, console: Console
) -> None:
    if args.json:
        groups = []
        for name, counts in stats.groups.items():
            group: dict[str, Any] = {args.by: name}
            if titles:
                group["title"] = titles[name]
            groups.append(group | _to_json(counts))
        console.print_json(
            {
                "schema": "open-token/stats/1",
                "by": args.by,
                "groups": groups,
                "total": _to_json(stats.total),
                "unpriced_models": stats.unpriced_models,
                "prices_checked": stats.prices_checked or None,
            }
        )
        return
    rows = [(_label(name, titles), counts) for name, counts in stats.groups.items()]
    if args.csv:
        _print_csv(args.by, stats.groups.items(), console)
        return
    if console.stdout_is_terminal and len(rows) > 1:
        rows.append(("total", stats.total))
    table: list[tuple[str, ...]] = [(args.by, *_HEADINGS)]
    table += [(name, *_format_counts(counts)) for name, counts in rows]
    _print_table(table, console)


def _print_table(table: list[tuple[str, ...]], console: Console) -> None:
    """Print names on the left and numbers on the right; a narrow screen gets fewer columns.

    The first row holds the headings. In a pipe: no headings, nothing left out.
    """
    if not console.stdout_is_terminal:
        for row in table[1:]:
            console.print("\t".join(row))
        return
    columns: list[tuple[str, ...]] = list(zip(*table, strict=True))
    for dropped in _DISPENSABLE:
        if _measure_table(columns) <= console.width():
            break
        columns = [column for column in columns if column[0] != dropped]
    others = _measure_table(columns[1:]) if len(columns) > 1 else 0
    name_width = max(_MIN_NAME, console.width() - others - 2)
    for number, row in enumerate(zip(*columns, strict=True)):
        cells = [truncate_to_columns(row[0], name_width)]
        width = min(name_width, max(map(count_columns, columns[0])))
        cells[0] += " " * (width - count_columns(cells[0]))
        for cell, column in zip(row[1:], columns[1:], strict=True):
            cells.append(cell.rjust(max(map(len, column))))
        line = "  ".join(cells)
        console.print(console.style(line.upper(), "bold", True) if number == 0 else line)


def _measure_table(columns: list[tuple[str, ...]]) -> int:
    """Return the width of columns with two spaces between them."""
    return sum(max(map(count_columns, column)) for column in columns) + 2 * (len(columns) - 1)


def _label(name: str, titles: dict[str, str]) -> str:
    label = f"{name[:8]} {titles[name][:40]}" if titles.get(name) else name
    return escape_controls(label)


def _print_csv(by: str, rows: Iterable[tuple[str, Counts]], console: Console) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([by, *(name.replace(" ", "_") for name in _HEADINGS)])
    for name, counts in rows:
        writer.writerow([escape_controls(name), *_list_values(counts)])
    console.print(out.getvalue().rstrip("\n"))


def _print_blocks(blocks: list[Block], args: argparse.Namespace, console: Console) -> None:
    now = time.time()
    if args.json:
        encoded = [
            {
                "start": from_epoch(int(block.start)),
                "end": from_epoch(int(block.end)),
                "is_active": block.end > now,
                **_to_json(block.counts),
            }
            for block in blocks
        ]
        console.print_json({"schema": "open-token/stats-blocks/1", "blocks": encoded})
        return
    names = [_name_block(block, now) for block in blocks]
    if args.csv:
        pairs = zip(names, (block.counts for block in blocks), strict=True)
        _print_csv("block", pairs, console)
        return
    table: list[tuple[str, ...]] = [("block", *_HEADINGS[4:])]
    for name, block in zip(names, blocks, strict=True):
        table.append((name, *_format_counts(block.counts)[4:]))
    _print_table(table, console)


def _name_block(block: Block, now: float) -> str:
    start = time.strftime("%Y-%m-%d %H:%M", time.localtime(block.start))
    end = time.strftime("%H:%M", time.localtime(block.end))
    return f"{start} to {end}" + (" (active)" if block.end > now else "")


def _print_remarks(stats: Stats, prices: PriceList, console: Console) -> None:
    if not stats.groups:
        console.info("nothing to count; `open-token sessions` lists the sessions that were found")
        return
    if stats.prices_checked:
        console.info(f"costs are estimates; oldest price checked on {stats.prices_checked}")
    if not prices.is_available:
        console.info("no price list is installed: pip install genai-prices")
    elif stats.unpriced_models:
        names = sorted(stats.unpriced_models, key=lambda name: -stats.unpriced_models[name])
        listed = escape_controls(", ".join(names[:5]))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        count = pluralize(len(names), "model")
        console.info(f"no price is known for {count}: {listed}{more}")


def _to_json(counts: Counts) -> dict[str, object]:
    values: dict[str, object] = msgspec.to_builtins(counts)
    values["cost"] = round(counts.cost, 6)
    return values


def _list_values(counts: Counts) -> list[int | float]:
    return [
        counts.sessions,
        counts.prompts,
        counts.calls,
        counts.failures,
        counts.input,
        counts.cache_read,
        counts.cache_write,
        counts.output,
        counts.reasoning,
        round(counts.cost, 6),
    ]


def _format_counts(counts: Counts) -> tuple[str, ...]:
    *numbers, cost = _list_values(counts)
    return (*(format_number(int(number)) for number in numbers), f"${cost:,.2f}")


def format_number(number: int) -> str:
    """Return a number in at most five characters."""
    if number < 10_000:
        return str(number)
    scaled = float(number)
    for unit in ("k", "M", "G"):
        scaled /= 1000
        if scaled < 99.95:
            return f"{scaled:.1f}{unit}"
        if scaled < 999.5:
            return f"{scaled:.0f}{unit}"
    return f"{scaled:.0f}G"
