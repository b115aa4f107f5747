"""`open-token statusline`: one line about today's usage, for prompts and status bars."""

import argparse
import time

from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help
from open_token.cli.stats import format_number
from open_token.library.index import SearchIndex
from open_token.library.index.stats import StatsFilter
from open_token.library.prices import PriceList
from open_token.settings import load_settings

HELP = Help(
    summary="Print one line about today's usage, for prompts and status bars.",
    usage=("statusline",),
    notes=(
        "Prints today's sessions, tokens and estimated cost, and those of the current five-hour "
        "block. It reads the index as it is, so that it is fast; `open-token index` in a hook or "
        "cron job keeps the index up to date. What an agent sends on stdin is ignored.",
    ),
    exit_codes=(("0", "Printed"), ("2", "Invalid usage")),
    examples=(("open-token statusline", ""),),
)
_DAY = 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the global options are enough."""


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the line."""
    folders = load_settings(console.env, console.cwd).folders
    prices = PriceList(folders.cache, folders.settings)
    now = time.time()
    local = time.localtime(now)
    midnight = now - local.tm_hour * 3600 - local.tm_min * 60 - local.tm_sec
    with SearchIndex(folders.cache) as index:
        reader = index.read_stats(prices)
        today = reader.count("day", StatsFilter(since=midnight)).total
        blocks = reader.list_blocks(StatsFilter(since=now - _DAY))
    parts = [
        f"today {today.sessions} sessions",
        f"{format_number(today.total_tokens)} tokens",
        f"${today.cost:,.2f}",
    ]
    active = [block for block in blocks if block.end > now]
    if active:
        left = int(active[-1].end - now) // 60
        counts = active[-1].counts
        parts.append(f"block ${counts.cost:,.2f}, {left // 60}h{left % 60:02d} left")
    line = " | ".join(parts)
    if args.json:
        console.print_json({"schema": "open-token/statusline/1", "line": line})
    else:
        console.print(line)
    return 0
