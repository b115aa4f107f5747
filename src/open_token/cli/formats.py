"""`open-token formats`: what can be read, and where it lives."""

import argparse

from open_token.cli.console import Console
from open_token.registry import READERS, load_reader

HELP = """List the formats that can be read, and where their conversations live.

usage: open-token formats

  open-token formats
  open-token formats --json

The content of a file decides its format, not its name. Name it with `export --from READER`
where two formats look alike.
Exit: 0 always
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the table."""
    definitions = [load_reader(name).definition for name in READERS]
    rows = [(item.name, item.title, item.places) for item in definitions]
    if args.json:
        formats = [
            {"reader": name, "title": title, "places": list(places)} for name, title, places in rows
        ]
        console.json({"schema": "open-token/formats/1", "formats": formats})
        return 0
    for name, title, places in rows:
        console.out(f"{name:20}{title}")
        for place in places:
            console.out(f"{'':20}  {place if place.startswith(('$', './')) else '~/' + place}")
    return 0
