"""`open-token formats`: list the supported formats and where their files are."""

import argparse

from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help
from open_token.registry import READERS, list_experimental_readers

HELP = Help(
    summary="List the supported formats and where agents store their sessions.",
    usage=("formats [OPTIONS]",),
    notes=(
        "A format is detected by content, not by file name. Where two formats look alike, "
        "name one with `open-token export --from READER`.",
        "A reader marked as experimental was written from descriptions and never checked on a "
        "real file.",
    ),
    exit_codes=(("0", "Always"),),
    examples=(("open-token formats", ""), ("open-token formats --json", "")),
)


def build_notes() -> tuple[str, ...]:
    """Return the paragraph of the help text that names the experimental readers."""
    return (f"Experimental are: {', '.join(list_experimental_readers())}.",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: there are only the global options."""


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the list."""
    definitions = [(name, reader.definition) for name, reader in READERS.items()]
    if args.json:
        formats = [
            {
                "reader": name,
                "title": item.title,
                "places": list(item.places),
                "checked": item.checked,
                "experimental": item.is_experimental,
            }
            for name, item in definitions
        ]
        console.print_json({"schema": "open-token/formats/1", "formats": formats})
        return 0
    for name, item in definitions:
        mark = " (experimental)" if item.is_experimental else ""
        console.print(f"{name:20}{item.title}{mark}")
        for path in item.places:
            if not path.startswith(("$", "./")):
                path = f"~/{path}"
            console.print(f"{'':20}  {path}")
    return 0
