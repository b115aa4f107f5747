"""`open-token fidelity`: how much of a source is in an export."""

import argparse
from pathlib import Path

from open_token.cli.choosing_one import be_chosen
from open_token.cli.console import Console, plural, visible
from open_token.cli.export import check_reader
from open_token.context import Context
from open_token.errors import InputError
from open_token.fidelity import Field, Report, Witness, judge
from open_token.locallib.export_many import list_exports
from open_token.model import Note
from open_token.options import ExportOptions
from open_token.pipeline import read
from open_token.registry import detect_format, list_conversations, load_reader
from open_token.sources.source import Source

HELP = """Tell how much of a conversation is in an export of it.

usage: open-token fidelity SOURCE EXPORT

  open-token fidelity talk.jsonl talk.json
  open-token fidelity talk.jsonl talk.json --json

SOURCE   what was exported
EXPORT   an Open-Token file, or the folder that --conversation all wrote
  --conversation ID|N   which one of a SOURCE that holds several
  --from READER         name the format of SOURCE
The source is walked on its own. Text is every string of 40 characters or more, each
counted once, also inside JSON in strings; said is text without seals and side data.
Exit: 0 all that was said is there  1 something is not  2 usage  3 cannot be read
"""
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SOURCE and EXPORT."""
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("export", metavar="EXPORT")
    parser.add_argument("--conversation", metavar="ID")
    parser.add_argument("--from", dest="reader", metavar="READER")


def run(args: argparse.Namespace, console: Console) -> int:
    """Compare, and print the report."""
    check_reader(args)
    path, target = console.cwd / args.source, console.cwd / args.export
    source = Source.of_folder(path, args.source) if path.is_dir() else Source.of(path, args.source)
    reader = args.reader.replace("-", "_") if args.reader else detect_format(source)
    if target.is_dir() and not args.conversation:
        notes = _notes_of_all(source, reader)
        witness = _witness(list_exports(target))
    else:
        be_chosen(
            source,
            reader,
            args.conversation,
            console,
            ", or name the folder that --conversation all wrote",
        )
        notes = read(source, _everything(), reader).notes
        witness = _witness([target])
    report = judge(source, reader, witness, notes)
    if args.json:
        console.json(report.as_json())
    else:
        for line in lines(report):
            console.out(line)
    if report.said and not report.said_kept:
        console.say(
            "note    nothing that was said is in this export: is it one of another conversation?"
        )
    return 0 if report.said_kept == report.said else 1


def _everything() -> Context:
    words = {"redact": "none", "include": "include-internal", "internal": "full", "branches": "all"}
    return Context(ExportOptions.of(words))


def _notes_of_all(source: Source, reader: str) -> list[Note]:
    """What is left out of every conversation that a source holds."""
    found: list[Note] = []
    names: list[str | None] = [item.id for item in list_conversations(source, reader)]
    for name in names if len(names) > 1 else [None]:
        source.conversation = name
        try:
            found += read(source, _everything(), reader).notes
        except InputError as problem:
            if problem.code != "input.no-events":
                raise
    source.conversation = None
    return found


def _witness(paths: list[Path]) -> Witness:
    """Who has seen all that these exports hold."""
    witness = Witness()
    for path in paths:
        export = Source.of(path, path.name)
        if not load_reader("open_token").sniff(export):
            raise InputError(
                "this is not an Open-Token export",
                where=export.name,
                help="SOURCE first, then its EXPORT",
            )
        record = read(export, _everything(), "open_token")
        witness.meet(record)
        for event in record.events:
            witness.take(event)
    return witness


def lines(report: Report) -> list[str]:
    """The report for a person."""
    made = [
        f"records  {report.records:,} read, {report.carried:,} with text that is in the export",
        f"said     {report.percent:.2f} % of {report.said:,} characters kept",
        *_hidden(report),
        f"text     {report.percent_of_all:.2f} % of {report.text:,} characters kept, seals and side data included",
    ]
    if report.usage:
        counts = ", ".join(
            f"{name.removesuffix('_tokens')} {count:,}" for name, count in report.usage.items()
        )
        made.append(f"usage    {counts} tokens in {plural(report.usage_events, 'event')}")
    for note in report.skipped:
        times = (
            f" ({note.count:,} times, first at {note.place})"
            if note.count > 1
            else f" ({note.place})"
        )
        made.append(f"skipped  {note.code}: {visible(note.detail)}{times}")
    if report.unmapped:
        made.append(f"fields   {len(report.unmapped):,} of {report.fields:,} never mapped:")
        made += [
            f"           {visible(item.path)}  ({item.seen:,}, first at {item.first})"
            for item in _first(report)
        ]
        if len(report.unmapped) > _SHOWN:
            made.append(
                f"           ... and {len(report.unmapped) - _SHOWN:,} more; --json lists all"
            )
    return made


def _hidden(report: Report) -> list[str]:
    if not report.reasoning_left:
        return []
    what = f"{report.reasoning_left:,} of the others are hidden reasoning"
    return [f"         {what}: include=include-internal internal=full keeps it"]


def _first(report: Report) -> list[Field]:
    return sorted(report.unmapped, key=lambda item: -item.seen)[:_SHOWN]
