"""`open-token schema`: print the JSON Schema of a document, or of one NDJSON record."""

import argparse

from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help, Section
from open_token.model.json_schema import build_document_schema, build_record_schema

HELP = Help(
    summary="Print the JSON Schema (2020-12) of the format.",
    usage=("schema [document|record]",),
    sections=(
        Section(
            "Arguments",
            (
                ("document", "The schema of a document, mode=json [default]"),
                ("record", "The schema of one line, mode=ndjson"),
            ),
        ),
    ),
    exit_codes=(("0", "Printed"), ("2", "Invalid usage")),
    examples=(
        ("open-token schema > open-token.schema.json", ""),
        ("open-token schema record", ""),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the schema."""
    parser.add_argument(
        "what",
        metavar="SCHEMA",
        nargs="?",
        choices=("document", "record"),
        default="document",
        help=argparse.SUPPRESS,
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the schema."""
    if args.what == "document":
        schema = build_document_schema()
    else:
        schema = build_record_schema()
    console.print_json(schema)
    return 0
