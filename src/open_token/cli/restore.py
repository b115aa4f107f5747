"""`open-token restore`: restore the source files from an export that preserves them."""

import argparse
from pathlib import Path

from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.help import Help, Section
from open_token.errors import UsageError
from open_token.library.restore import restore_files

HELP = Help(
    summary="Restore the source files from an export made with native=full.",
    usage=("restore EXPORT -o FOLDER [OPTIONS]",),
    sections=(
        Section(
            "Arguments",
            (("EXPORT", "An export, or the folder that --conversation all wrote"),),
        ),
    ),
    notes=(
        "Restored are the values and the order of JSON lines and documents, the rows of a "
        "database, the members of a zip file and plain text. Redacted values stay redacted.",
    ),
    exit_codes=(
        ("0", "Restored"),
        ("2", "Invalid usage"),
        ("3", "Cannot read, write or restore"),
    ),
    examples=(
        (
            "open-token export session.jsonl redact=none include=include-internal internal=full "
            "branches=all native=full mode=ndjson -o session.ndjson",
            "Export everything",
        ),
        ("open-token restore session.ndjson -o restored", ""),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the export, the folder and the limit."""
    parser.add_argument("export", metavar="EXPORT", help=argparse.SUPPRESS)
    output = parser.add_argument_group("Output")
    output.add_argument(
        "-o", "--output", metavar="FOLDER", help="New folder for the files, created atomically"
    )
    output.add_argument(
        "--limit",
        metavar="BYTES",
        type=int,
        help="Maximum size of the data after decompression "
        "[default: 100 times the export, but at least 268,435,456]",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Restore the files and report them."""
    if not args.output:
        raise UsageError("restore needs -o FOLDER", help="open-token restore EXPORT -o FOLDER")
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit must not be negative", help="for example --limit 1000000000")
    path = console.cwd / args.export
    restored, is_masked = restore_files(path, Path(args.output), args.limit)
    if is_masked:
        console.warn("this export was redacted; masked values stay masked in the restored files")
    if restored.missing:
        console.warn(
            f"{pluralize(restored.missing, 'record')} of the source not in this export: those of "
            "other conversations, and credentials"
        )
    for name in restored.files:
        console.info(f"wrote   {escape_controls(args.output)}/{escape_controls(name)}")
    records = pluralize(restored.records, "record")
    console.info(f"total   {records} in {pluralize(len(restored.files), 'file')}")
    if args.json:
        console.print_json(
            {
                "schema": "open-token/restored/1",
                "files": restored.files,
                "records": restored.records,
                "missing": restored.missing,
            }
        )
    return 0
