"""`open-token restore`: the source again, from an export that holds it."""

import argparse
from pathlib import Path

from open_token.cli.console import Console, plural, visible
from open_token.errors import UsageError
from open_token.restore import restore_files

HELP = """Give back the source that an export was made of.

usage: open-token restore EXPORT -o FOLDER [--limit LETTERS]

  open-token export talk.jsonl redact=none include=include-internal internal=full \\
      branches=all native=full mode=ndjson -o talk.ndjson
  open-token restore talk.ndjson -o back

EXPORT   a file made with native=full, or the folder that --conversation all made
  -o FOLDER      a new folder for the files; it appears whole or not at all
  --limit LETTERS   the most that references in it may grow to, so that none fills a
                 disk; without it 100 times the export, or 268,435,456 if that is more
What comes back: the values and the order of JSON lines and documents, the rows of a
database, the members of a zip, the text of a text. What was redacted stays redacted.
Exit: 0 written  2 usage  3 cannot be read, written or restored
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """EXPORT and the folder."""
    parser.add_argument("export", metavar="EXPORT")
    parser.add_argument("-o", "--output", metavar="FOLDER")
    parser.add_argument("--limit", metavar="LETTERS", type=int)


def run(args: argparse.Namespace, console: Console) -> int:
    """Restore, and say what was written."""
    if not args.output:
        raise UsageError(
            "the files need a folder", help="name it: open-token restore EXPORT -o FOLDER"
        )
    path = console.cwd / args.export
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit takes a number of letters", help="for example --limit 1000000000")
    done, masked = restore_files(path, Path(args.output), args.limit)
    if masked:
        console.warn("this export was redacted; what was masked stays masked in the restored files")
    for name in done.files:
        console.say(f"wrote   {visible(args.output)}/{visible(name)}")
    console.say(f"back    {plural(done.records, 'record')} in {plural(len(done.files), 'file')}")
    if args.json:
        console.json(
            {"schema": "open-token/restored/1", "files": done.files, "records": done.records}
        )
    return 0
