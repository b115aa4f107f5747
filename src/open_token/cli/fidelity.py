"""`open-token fidelity`: measure how much of a source an export preserves."""

import argparse
from pathlib import Path

from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.receipt import format_note
from open_token.cli.shared.source_selection import (
    add_source_arguments,
    check_reader_name,
    choose_conversation_in,
)
from open_token.context import Context
from open_token.errors import InputError
from open_token.library.export_many import list_exports
from open_token.model.omissions import Note, summarize_omissions
from open_token.native.fidelity import ExportObserver, FidelityReport, measure_fidelity
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.registry import detect_format, list_conversations, load_reader
from open_token.sources.source import Source

HELP = Help(
    summary="Measure how much of a source an export preserves.",
    usage=("fidelity SOURCE EXPORT [OPTIONS]",),
    sections=(
        Section(
            "Arguments",
            (
                ("SOURCE", "The file or folder that was exported"),
                ("EXPORT", "An Open-Token file, or a folder written by --conversation all"),
            ),
        ),
    ),
    notes=(
        "The source is read independently of the readers. `text` counts every string of at "
        "least 40 characters once, including strings in nested JSON; `said` is text without "
        "encrypted data and metadata.",
    ),
    exit_codes=(
        ("0", "All message text is preserved"),
        ("1", "Some is missing"),
        ("2", "Invalid usage"),
        ("3", "Cannot read"),
    ),
    examples=(
        ("open-token fidelity session.jsonl session.json", ""),
        ("open-token fidelity session.jsonl session.json --json", ""),
    ),
)
_MAX_FIELDS = 20
_COMPLETE_OPTIONS = {
    "redact": "none",
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source, export and selection."""
    parser.add_argument("source", metavar="SOURCE", help=argparse.SUPPRESS)
    parser.add_argument("export", metavar="EXPORT", help=argparse.SUPPRESS)
    add_source_arguments(parser, has_session_flags=False)


def run(args: argparse.Namespace, console: Console) -> int:
    """Compare source and export, and print the report."""
    check_reader_name(args.reader)
    path = console.cwd / args.source
    export = console.cwd / args.export
    open_source = Source.of_folder if path.is_dir() else Source.of
    source = open_source(path, args.source)
    if args.reader:
        reader = args.reader.replace("-", "_")
    else:
        reader = detect_format(source)
    if export.is_dir() and not args.conversation:
        notes = _collect_all_notes(source, reader)
        observer = _observe_exports(list_exports(export))
    else:
        alternative = ", or name the folder that --conversation all wrote"
        choose_conversation_in(source, reader, args.conversation, console, alternative)
        notes = read_record(source, _complete_context(), reader).notes
        observer = _observe_exports([export])
    report = measure_fidelity(source, reader, observer, notes)
    if args.json:
        console.print_json(report.as_json())
    else:
        for line in render_report(report):
            console.print(line)
    if report.said and not report.said_kept:
        console.info("note    no message text matches: is this an export of another session?")
    return 0 if report.said_kept == report.said else 1


def _complete_context() -> Context:
    return Context(ExportOptions.of(_COMPLETE_OPTIONS))


def _collect_all_notes(source: Source, reader: str) -> list[Note]:
    """Return the notes on every conversation of a source."""
    notes: list[Note] = []
    ids: list[str | None] = [item.id for item in list_conversations(source, reader)]
    if len(ids) < 2:
        ids = [None]
    for conversation_id in ids:
        source.conversation = conversation_id
        try:
            notes += read_record(source, _complete_context(), reader).notes
        except InputError as problem:
            if problem.code != "input.no-events":
                raise
    source.conversation = None
    return notes


def _observe_exports(paths: list[Path]) -> ExportObserver:
    """Return an observer that has seen the content of these exports."""
    observer = ExportObserver()
    for path in paths:
        export = Source.of(path, path.name)
        if not load_reader("open_token").sniff(export):
            raise InputError(
                "not an Open-Token export",
                where=export.name,
                help="give the SOURCE first, then its EXPORT",
            )
        record = read_record(export, _complete_context(), "open_token")
        observer.meet(record)
        for event in record.events:
            observer.take(event)
    return observer


def render_report(report: FidelityReport) -> list[str]:
    """Render the report as lines of text."""
    lines = [
        f"records  {report.records:,} read, {report.carried:,} with text in the export",
        f"said     {report.percent:.2f} % of {report.said:,} characters preserved",
    ]
    if report.reasoning_left:
        lines.append(f"         {report.reasoning_left:,} of the others are hidden reasoning:")
        lines.append("         preserve it with include=include-internal internal=full")
    lines.append(
        f"text     {report.percent_of_all:.2f} % of {report.text:,} characters preserved, "
        "including encrypted data and metadata"
    )
    if report.usage:
        counts = ", ".join(
            f"{name.removesuffix('_tokens')} {count:,}"
            for name, count in report.usage.items()
            if count
        )
        lines.append(f"usage    {counts} tokens in {pluralize(report.usage_events, 'event')}")
    summary = summarize_omissions(report.skipped)
    if summary:
        lines.append(f"skipped  {summary}:")
    lines += [f"skipped  {format_note(note)}" for note in report.skipped]
    lines += _render_unmapped_fields(report)
    return lines


def _render_unmapped_fields(report: FidelityReport) -> list[str]:
    if not report.unmapped:
        return []
    lines = [f"fields   {len(report.unmapped):,} of {report.fields:,} never mapped:"]
    most_frequent = sorted(report.unmapped, key=lambda field: -field.seen)
    for field in most_frequent[:_MAX_FIELDS]:
        path = escape_controls(field.path)
        lines.append(f"           {path}  ({field.seen:,}, first at {field.first})")
    if len(report.unmapped) > _MAX_FIELDS:
        more = len(report.unmapped) - _MAX_FIELDS
        lines.append(f"           ... and {more:,} more; --json lists all")
    return lines
