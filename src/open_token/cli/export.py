"""`open-token export`: convert a session to an Open-Token document, a page or another format."""

import argparse
import gc
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from open_token.api import build_context
from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.export_options import (
    add_export_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.jobs import add_jobs_option, parse_jobs
from open_token.cli.shared.output import (
    choose_output_name,
    open_page,
    refuse_folder,
    refuse_to_overwrite_source,
)
from open_token.cli.shared.progress import Progress
from open_token.cli.shared.receipt import print_receipt
from open_token.cli.shared.signals import interrupt_on_signals
from open_token.cli.shared.source_selection import (
    SOURCE_HELP,
    SelectedSource,
    add_source_arguments,
    check_reader_name,
    choose_conversation,
    print_source,
    select_reader,
    select_source,
)
from open_token.context import Context
from open_token.errors import UsageError
from open_token.model.document import Event, Record
from open_token.model.omissions import Note, summarize_omissions
from open_token.options import OPTION_NAMES, split_option_words, suggest_match
from open_token.pipeline import Receipt, export
from open_token.registry import list_experimental_readers
from open_token.settings import load_settings
from open_token.sources.source import Source
from open_token.storage.files import atomic_file
from open_token.writers import EXCHANGE_FORMATS, PAGE_FORMATS

if TYPE_CHECKING:
    from open_token.library.export_many import Failure

MODES = ("json", "ndjson")
OUTPUT_FORMATS = (*MODES, *PAGE_FORMATS, *EXCHANGE_FORMATS)
HELP = Help(
    summary="Convert a session to an Open-Token document, a web page or another format.",
    usage=("export [SOURCE] [OPTIONS] [KEY=VALUE ...]",),
    sections=(
        Section(
            "Arguments",
            (("SOURCE", f"{SOURCE_HELP} [default: newest session of this folder]"),),
        ),
    ),
    notes=(
        "These options may also be written as KEY=VALUE, for example redact=pii: "
        f"{', '.join(OPTION_NAMES)}.",
    ),
    exit_codes=(
        ("0", "Exported"),
        ("1", "Exported, but some conversations of --conversation all could not be read"),
        ("2", "Invalid usage"),
        ("3", "Cannot read, write or fit into max_bytes"),
        ("130", "Interrupted"),
    ),
    examples=(
        ("open-token export", "Export the newest session of this folder"),
        ("open-token export session.jsonl redact=pii -o session.json", ""),
        ("open-token export last --to html -o session.html", "Write a self-contained web page"),
        ("cat session.jsonl | open-token export - mode=ndjson | jq .", ""),
    ),
)


def build_notes() -> tuple[str, ...]:
    """Return the paragraph of the help text that names the experimental readers."""
    return (
        "Written from descriptions and never checked on a real file (experimental): "
        f"{', '.join(list_experimental_readers())}.",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source, output and export options; they may come in any order."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    add_source_arguments(
        parser,
        conversation="Conversation to export from a source that holds several; "
        "all: each into a file of the folder -o",
        conversation_metavar="ID|N|all",
    )
    add_jobs_option(parser._action_groups[-1], "With --conversation all, ")
    output = parser.add_argument_group("Output")
    output.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to FILE, atomically [default: stdout; on a terminal, a new file here]",
    )
    output.add_argument(
        "--open", action="store_true", help="Open the page in a browser, with --to html"
    )
    output.add_argument(
        "--to", metavar="FORMAT", help=f"Output format: {', '.join(OUTPUT_FORMATS)}"
    )
    output.add_argument(
        "--follow",
        action="store_true",
        help="Stream a running session as NDJSON until Ctrl-C",
    )
    output.add_argument(
        "--append", action="store_true", help="Continue the file -o of an earlier --follow"
    )
    output.add_argument(
        "--report",
        action="store_true",
        help="Also report how much of the source the export preserves",
    )
    output.add_argument(
        "--sign", metavar="KEY", help="Sign with an SSH key; `default`: the key in the settings"
    )
    add_export_options(parser, is_listed=True)


def run(args: argparse.Namespace, console: Console) -> int:
    """Find the source, export it and report what was done."""
    # A large source creates millions of objects and no cycles: garbage collection would take a
    # tenth of the time.
    gc.disable()
    words, others = split_option_words(args.words)
    page = _resolve_format(args, words)
    settings = load_settings(console.env, console.cwd)
    defaults = dict(settings.defaults)
    if args.follow:
        defaults["mode"] = "ndjson"
    options = resolve_export_options(args, words, defaults)
    _check_arguments(args)
    warn_about_options(options, settings.policy, console)
    for warning in settings.warnings:
        console.warn(escape_controls(warning))
    selected = select_source(others, console, current=args.current, picking=args.pick)
    print_source(selected, console)
    started = time.monotonic()
    context = build_context(options, settings, console.env)
    if page is None and args.sign is not None:
        context = _add_signer(args.sign, context, console)
    if args.follow:
        from open_token.cli.export_follow import follow

        return follow(args, selected, context, console)
    if args.conversation == "all":
        return _export_all(args, selected, context, console)
    if args.output is None and page != "brief" and (console.stdout_is_terminal or args.open):
        args.output = choose_output_name(selected.source, page or options.mode, console)

    observer = FidelityObserver() if args.report else None
    receipt = _export_one(args, selected, context, console, observer, page)
    seconds = time.monotonic() - started
    print_receipt(receipt, selected, args.output, seconds, console, page)
    result: dict[str, Any] = {
        "schema": "open-token/receipt/1",
        "output": args.output,
        "form": page or options.mode,
        **msgspec.to_builtins(receipt),
    }
    if observer:
        report = observer.report(selected.source, receipt.reader, receipt.notes, console)
        result["fidelity"] = report
    if args.json and args.output:
        console.print_json(result)
    if args.open:
        open_page(Path(args.output), console)
    return 0


def _resolve_format(args: argparse.Namespace, words: dict[str, str]) -> str | None:
    """Return the format of --to; json and ndjson only set the option `mode`."""
    if args.to is None:
        return None
    if args.to not in OUTPUT_FORMATS:
        guess = suggest_match(args.to, OUTPUT_FORMATS)
        raise UsageError(
            "unknown output format", help=f"{guess}--to accepts {', '.join(OUTPUT_FORMATS)}"
        )
    if "mode" in words or args.option_mode:
        raise UsageError("--to and mode are mutually exclusive", help="use one of them")
    if args.to in MODES:
        words["mode"] = args.to
        return None
    conflict = None
    if args.follow:
        conflict = "--follow"
    elif args.conversation == "all":
        conflict = "--conversation all"
    if conflict:
        raise UsageError(
            f"{conflict} cannot be combined with --to {args.to}",
            help="export one finished conversation",
        )
    if args.sign:
        raise UsageError(
            f"--sign cannot be combined with --to {args.to}",
            help="only --to json and --to ndjson can be signed",
        )
    # Pages and other formats are made from the document.
    words["mode"] = "json"
    return str(args.to)


def _check_arguments(args: argparse.Namespace) -> None:
    if args.open and args.to != "html":
        raise UsageError("--open needs --to html", help="only a page can be opened in a browser")
    check_reader_name(args.reader)
    if args.json and args.output in (None, "-"):
        raise UsageError(
            "--json needs -o FILE", help="without -o, stdout carries the export itself"
        )
    if args.sign and args.follow:
        raise UsageError(
            "--sign cannot be combined with --follow",
            help="sign the finished file: open-token sign FILE",
        )
    if args.append and not args.follow:
        raise UsageError("--append needs --follow", help="add --follow, or remove --append")
    if args.conversation == "all":
        if args.output in (None, "-"):
            raise UsageError("--conversation all needs an output folder", help="add -o FOLDER")
    else:
        refuse_folder(args.output)
        if args.jobs is not None:
            raise UsageError(
                "--jobs needs --conversation all",
                help="one conversation is exported by one process",
            )


def _add_signer(key: str, context: Context, console: Console) -> Context:
    if context.options.integrity == "none":
        raise UsageError("--sign cannot be combined with integrity=none", help="remove one of them")
    from open_token.cli.sign import create_signer

    return replace(context, sign=create_signer(None if key == "default" else key, console))


def _export_one(
    args: argparse.Namespace,
    selected: SelectedSource,
    context: Context,
    console: Console,
    observer: "FidelityObserver | None",
    page: str | None,
) -> Receipt:
    source = selected.source
    reader = choose_conversation(args, selected, console, ", or all: --conversation all -o FOLDER")
    with Progress(source.size, console) as progress:
        source.progress = progress
        if args.output in (None, "-"):
            args.output = None
            out = progress.clear_before_output(console.stdout)
            return export(source, out, context, reader, observer, page)
        refuse_to_overwrite_source(source, args.output)
        with atomic_file(Path(args.output)) as file:
            return export(source, progress.count_file(file), context, reader, observer, page)


def _export_all(
    args: argparse.Namespace, selected: SelectedSource, context: Context, console: Console
) -> int:
    """Export each conversation of a source into a folder, with an index."""
    # Imported here: an export of one conversation needs neither this nor processes.
    from open_token.library.export_many import INDEX_NAME, export_conversations

    source = selected.source
    reader = select_reader(args.reader, selected)
    observer = FidelityObserver() if args.report else None
    size = source.size

    def show_share(done: int, total: int) -> None:
        progress(size * done // total)

    with (
        Progress(size, console, "exporting conversations", has_rate=True) as progress,
        interrupt_on_signals(),
    ):
        exported = export_conversations(
            source,
            reader,
            Path(args.output),
            context,
            observer,
            jobs=parse_jobs(args),
            report=show_share,
        )
    source.conversation = None
    receipts = exported.receipts
    _print_receipts(receipts, reader, args.output, INDEX_NAME, console)
    for failure in exported.failures:
        console.warn(_describe_failure(failure))
    result: dict[str, Any] = {"conversations": [_summarize(receipt) for receipt in receipts]}
    if exported.failures:
        result["failures"] = [
            {"number": failure.number, "id": failure.id, "error": failure.problem.code}
            for failure in exported.failures
        ]
    if observer:
        notes = [note for receipt in receipts for note in receipt.notes]
        result["fidelity"] = observer.report(source, reader, notes, console)
    if args.json:
        console.print_json({"schema": "open-token/receipts/1", "output": args.output, **result})
    return 1 if exported.failures else 0


def _describe_failure(failure: "Failure") -> str:
    problem = failure.problem
    where = escape_controls(problem.where or failure.id[:60])
    return (
        f"conversation {failure.number} was not exported: {escape_controls(problem.what)}"
        f"\n  --> {where}"
    )


def _summarize(receipt: Receipt) -> dict[str, Any]:
    summary: dict[str, Any] = {"id": receipt.conversation_id, "events": receipt.events}
    if receipt.notes:
        summary["notes"] = msgspec.to_builtins(receipt.notes)
    return summary


def _print_receipts(
    receipts: list[Receipt], reader: str, output: str, index_name: str, console: Console
) -> None:
    event_count = sum(receipt.events for receipt in receipts)
    events = pluralize(event_count, "event")
    conversations = pluralize(len(receipts), "conversation")
    console.info(f"read    {reader}  {conversations}, {events}")
    # Hundreds of conversations may have the same note: it is printed once, with its number.
    counts: Counter[tuple[str, str]] = Counter()
    first_places: dict[tuple[str, str], str] = {}
    for receipt in receipts:
        for note in receipt.notes:
            key = (note.code, note.detail)
            counts[key] += note.count
            first_places.setdefault(key, f"{receipt.conversation_id[:60]}, {note.place}")
    summary = summarize_omissions(note for receipt in receipts for note in receipt.notes)
    if summary:
        console.info(f"omits   {summary}")
    for key, count in counts.items():
        code, detail = key
        times = pluralize(count, "time")
        first = escape_controls(first_places[key])
        console.info(f"note    {code}: {escape_controls(detail)} ({times}, first in {first})")
    documents = pluralize(len(receipts), "document")
    console.info(f"wrote   {escape_controls(output)}  {documents} and {index_name}")


class FidelityObserver:
    """Observes what an export contains, for --report; loads the comparison only then."""

    def __init__(self) -> None:
        from open_token.native.fidelity import ExportObserver

        self._observer = ExportObserver()

    def meet(self, record: Record) -> None:
        """Observe the metadata of the record."""
        self._observer.meet(record)

    def take(self, event: Event) -> None:
        """Observe one event."""
        self._observer.take(event)

    def report(
        self, source: Source, reader: str, notes: list[Note], console: Console
    ) -> dict[str, Any]:
        """Compare with the source, print the report and return it as JSON."""
        from open_token.cli.fidelity import render_report
        from open_token.native.fidelity import measure_fidelity

        report = measure_fidelity(source, reader, self._observer, notes)
        for line in render_report(report):
            # The receipt has listed the notes already.
            if not line.startswith("skipped"):
                console.info(line)
        return dict(report.as_json())
