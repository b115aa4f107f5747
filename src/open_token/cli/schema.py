"""`open-token schema`: the JSON Schema of the document, or of one NDJSON record."""

import argparse

from open_token.cli.console import Console
from open_token.schema import document_schema, record_schema

HELP = """Print the JSON Schema (2020-12) of the format.

usage: open-token schema [document|record]

  open-token schema > open-token.schema.json
  open-token schema record               one line of mode=ndjson

Exit: 0 printed  2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which one."""
    parser.add_argument("what", nargs="?", choices=("document", "record"), default="document")


def run(args: argparse.Namespace, console: Console) -> int:
    """Print it."""
    console.json(document_schema() if args.what == "document" else record_schema())
    return 0
