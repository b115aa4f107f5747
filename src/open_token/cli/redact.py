"""`open-token redact`: mask secrets and personal data in a session or a text."""

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from open_token.api import build_context
from open_token.cli.redact_review import review, summarize
from open_token.cli.redact_search import (
    SourceSearcher,
    is_text,
    read_text,
    search_session,
    search_text,
)
from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.export_options import (
    add_export_options,
    describe_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.cli.shared.findings import FindingsReport, print_findings, write_findings_report
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.jobs import add_jobs_option, parse_jobs
from open_token.cli.shared.output import refuse_folder
from open_token.cli.shared.progress import Progress
from open_token.cli.shared.receipt import print_receipt
from open_token.cli.shared.source_selection import (
    SelectedSource,
    add_source_arguments,
    choose_conversation,
    print_source,
    select_source,
)
from open_token.cli.shared.text_input import check_text, read_chunks
from open_token.context import Context
from open_token.errors import InputError, OpenTokenError, OutputError, UsageError
from open_token.library.jobs import limit_jobs, run_jobs
from open_token.library.review import (
    FALSE_POSITIVE,
    explain_lock,
    keep_values,
    remember_false_positives,
)
from open_token.options import split_option_words
from open_token.pipeline import export
from open_token.redaction.explanation import collect_values
from open_token.redaction.findings import Finding
from open_token.redaction.found_values import FoundValues
from open_token.redaction.report import drops_media
from open_token.redaction.text_stream import get_text_level, redact_text
from open_token.settings import Settings, load_settings
from open_token.sources.source import Source
from open_token.storage.files import atomic_file

HELP = Help(
    summary="Mask secrets and personal data in a session or a text, or report them.",
    usage=("redact SOURCE [OPTIONS]", "redact --check SOURCE... [OPTIONS]"),
    sections=(
        Section(
            "Arguments",
            (
                (
                    "SOURCE",
                    "A session, as for `open-token export`: the result is its redacted export. "
                    "Any other text file, or - for text on stdin: the result is that text",
                ),
            ),
        ),
    ),
    notes=("Nothing leaves this machine.", describe_options()),
    exit_codes=(
        ("0", "Done, or nothing to mask"),
        ("1", "--check found something"),
        ("2", "Invalid usage"),
        ("3", "Cannot read or write"),
        ("130", "Interrupted, or the review was quit"),
    ),
    examples=(
        ("open-token redact session.jsonl --review -o shared.json", "Decide on each finding"),
        ("open-token redact --check --level pii logs/*.txt", "Check files in CI"),
        ("make 2>&1 | open-token redact - > build.log", ""),
    ),
)
_TEXT_SCHEMA = "open-token/redacted-text/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add sources and options; they may come in any order."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    redaction = parser.add_argument_group("Redaction")
    redaction.add_argument(
        "--level",
        metavar="LEVEL",
        help="secrets, pii or strict; same as redact=LEVEL [default: secrets]",
    )
    redaction.add_argument(
        "--check",
        action="store_true",
        help="Write nothing; exit with 1 if anything would be masked",
    )
    redaction.add_argument(
        "--review",
        action="store_true",
        help="Decide on each finding; false positives are remembered by keyed hash",
    )
    add_jobs_option(redaction, "With --check and several sources, ")
    output = parser.add_argument_group("Output")
    output.add_argument(
        "-o", "--output", metavar="FILE", help="Write to FILE, atomically [default: stdout]"
    )
    output.add_argument(
        "--report",
        metavar="FILE",
        help="Write a JSON report of the findings, without values; "
        "- for stdout, instead of the result",
    )
    add_source_arguments(parser, has_session_flags=False)
    selection = parser._action_groups[-1]
    selection.add_argument(
        "--text", action="store_true", help="Treat SOURCE as text, whatever it looks like"
    )
    add_export_options(parser)


class Job(NamedTuple):
    """How one kind of source is searched and written."""

    name: str
    path: Path | None
    find: Callable[[Context], list[Finding]]
    write: Callable[[BinaryIO, Context], dict[str, Any]]
    remarks: list[str]
    """Filled by the search: what else a review should show."""


def run(args: argparse.Namespace, console: Console) -> int:
    """Search the sources as far as --check, --report or --review need it, then write."""
    words, others = split_option_words(args.words)
    if args.level is not None:
        args.option_redact.append(args.level)
    settings = load_settings(console.env, console.cwd)
    options = resolve_export_options(args, words, settings.defaults)
    _check_arguments(args, console)
    warn_about_options(options, settings.policy, console)
    for warning in settings.warnings:
        console.warn(escape_controls(warning))
    context = build_context(options, settings, console.env)
    words_of_sources = _check_sources(args, others)
    if len(words_of_sources) > 1:
        return _check_many(args, words_of_sources, context, console)
    # The source is opened before anything is written or reported.
    job = _create_job(args, words_of_sources[0], context, console)
    _refuse_to_overwrite_source(args, job.path)
    context = _name_source(context, job)
    if args.check:
        report = FindingsReport(job.name, _find_level(context), job.find(context))
        return _report_check(args, [report], console)
    if not (args.report or args.review):
        _write_result(args, job, context, console)
        return 0

    findings = job.find(context)
    decisions = None
    if args.review:
        remark = " ".join(job.remarks)
        decisions = _review_findings(args, findings, context, console, remark)
        if decisions is None:
            console.info("quit; nothing was written or remembered")
            return 130
        context = _apply_decisions(findings, decisions, context, settings, console)
    if args.output or args.report != "-":
        if args.review and not _has_output(args, console):
            console.info("next    add -o FILE to write the result; nothing was written")
        else:
            _write_result(args, job, context, console)
    if args.report:
        report = FindingsReport(job.name, _find_level(context), findings, decisions)
        write_findings_report([report], args.report, console)
    return 0


def _check_many(
    args: argparse.Namespace, words: list[str], context: Context, console: Console
) -> int:
    """Report what would be masked in several sources; those that cannot be read stop nothing."""
    selected: list[SelectedSource] = []
    problems: list[OpenTokenError] = []
    for word in words:
        try:
            selected.append(select_source([word], console, current=False, picking=False))
        except InputError as error:
            problems.append(_mask_error(error, context))
    for one in selected:
        print_source(one, console)
        _refuse_to_overwrite_source(args, one.source.path)
    searcher = SourceSearcher(context, args.reader, args.conversation, args.text)
    sizes = [one.source.size for one in selected]
    jobs = limit_jobs(parse_jobs(args), sizes)
    level = _find_level(context)
    reports = []
    done = 0
    action = f"searching {pluralize(len(selected), 'source')}"
    with (
        Progress(sum(sizes), console, action, has_rate=True) as progress,
        contextlib.closing(run_jobs(searcher, selected, jobs)) as outcomes,
    ):
        for outcome, size in zip(outcomes, sizes, strict=True):
            done += size
            progress(done)
            if outcome.result is not None:
                reports.append(FindingsReport(outcome.item.source.name, level, outcome.result))
            elif isinstance(outcome.problem, InputError):
                problems.append(_mask_error(outcome.problem, context))
            elif outcome.problem is not None:
                problems.append(outcome.problem)
    for problem in problems:
        where = f"\n  --> {escape_controls(problem.where)}" if problem.where else ""
        console.warn(f"not searched: {escape_controls(problem.what)}{where}")
    if not reports:
        raise problems[0]
    code = _report_check(args, reports, console)
    return problems[0].exit_code if problems else code


def _report_check(args: argparse.Namespace, reports: list[FindingsReport], console: Console) -> int:
    """Write and print the reports; return the exit code of --check."""
    if args.report or args.json:
        write_findings_report(reports, args.report or "-", console)
    has_table = not args.json and args.report != "-"
    return print_findings(reports, console, has_table=has_table)


def _name_source(context: Context, job: Job) -> Context:
    """Name the source in the context: allow-list entries may refer to its path."""
    return replace(context, source=str(job.path or job.name))


def _find_level(context: Context) -> str:
    return get_text_level(context) or "none"


def _has_output(args: argparse.Namespace, console: Console) -> bool:
    """Whether a review has somewhere to write to; a screen is occupied by the review."""
    if args.output:
        return True
    return not console.stdout_is_terminal and args.report != "-"


def _check_arguments(args: argparse.Namespace, console: Console) -> None:
    if args.output == "-":
        args.output = None
    if args.review and args.check:
        raise UsageError("--review and --check are mutually exclusive", help="use one of them")
    if args.check and args.output:
        raise UsageError(
            "--check cannot be combined with -o", help="--check writes nothing; remove one"
        )
    if args.review and (not console.is_interactive or console.env.get("TERM") == "dumb"):
        remedy = "list the findings with --check or --report FILE instead"
        if "-" in args.words and console.stderr_is_terminal:
            remedy = "stdin carries the text and cannot carry keys: save the text to a file first"
        raise UsageError("--review needs a terminal", help=remedy)
    if args.text and args.reader:
        raise UsageError("--text and --from are mutually exclusive", help="use one of them")
    if args.json and not (args.output or args.check or args.report):
        raise UsageError("--json needs -o FILE, --check or --report", help="add one of them")
    for path in filter(None, (args.output, args.report)):
        refuse_folder(path)
        if path != "-" and not os.path.isdir(os.path.dirname(path) or "."):
            raise OutputError(
                "the folder of the output does not exist",
                where=path,
                help="create it; nothing was written",
            )
    is_pair = bool(args.report and args.output)
    if is_pair and os.path.realpath(args.report) == os.path.realpath(args.output):
        raise UsageError(
            "-o and --report name the same file", help="choose another name for the report"
        )


def _refuse_to_overwrite_source(args: argparse.Namespace, source: Path | None) -> None:
    for path in filter(None, (args.output, args.report)):
        if source and os.path.isfile(path) and os.path.samefile(source, path):
            raise UsageError(
                "the output would overwrite the source", where=path, help="choose another name"
            )


def _check_sources(args: argparse.Namespace, words: list[str]) -> list[str]:
    if not words:
        raise UsageError(
            "redact needs a source",
            help="name a file or a session, `last` for the newest session, or - for stdin",
        )
    if len(words) > 1 and not args.check:
        raise UsageError(
            f"expected one source, got {len(words)}", help="only --check accepts several"
        )
    return words


def _create_job(args: argparse.Namespace, word: str, context: Context, console: Console) -> Job:
    if word == "-" and not args.reader:
        if args.check or args.report or args.review:
            return _create_text_job(args, Source.of_stream(console.stdin, "<stdin>"), console)
        return _create_stream_job(console)
    try:
        selected = select_source([word], console, current=False, picking=False)
        reads_text = args.text or is_text(selected, args.reader)
    except InputError as problem:
        raise _mask_error(problem, context) from None
    if reads_text:
        return _create_text_job(args, selected.source, console)
    return _create_session_job(args, selected, console)


def _mask_error(problem: InputError, context: Context) -> InputError:
    """Mask an error about a word that may be the very text to redact, not a file name."""
    strict = replace(context, options=context.options.changed(redact="pii"))
    name = (problem.where or "").encode("utf-8", "replace")
    masked = b"".join(redact_text([name], strict, "")).decode()
    remedy = problem.help
    if problem.code in ("input", "input.missing"):
        remedy = f"{remedy}; to redact a text, use stdin: open-token redact -"
    return InputError(problem.what, where=masked or None, help=remedy, code=problem.code)


def _create_session_job(
    args: argparse.Namespace, selected: SelectedSource, console: Console
) -> Job:
    source = selected.source
    print_source(selected, console)
    reader = choose_conversation(args, selected, console)
    remarks: list[str] = []

    def find(context: Context) -> list[Finding]:
        with Progress(source.size, console) as progress:
            source.progress = progress
            findings, media_count = search_session(source, reader, context)
        source.progress = None
        if media_count:
            remarks.append(_describe_media(media_count, context))
        return findings

    def write(out: BinaryIO, context: Context) -> dict[str, Any]:
        started = time.monotonic()
        with Progress(source.size, console) as progress:
            source.progress = progress
            watch = progress.count_file if args.output else progress.clear_before_output
            receipt = export(source, watch(out), context, reader)
        source.progress = None
        shown = receipt
        if not receipt.redaction:
            shown = msgspec.structs.replace(receipt, redaction=[_nothing_to_mask(context)])
        print_receipt(shown, selected, args.output, time.monotonic() - started, console)
        return {
            "schema": "open-token/receipt/1",
            "output": args.output,
            **msgspec.to_builtins(receipt),
        }

    return Job(source.name, source.path, find, write, remarks)


def _describe_media(count: int, context: Context) -> str:
    """Return what happens to images and files, which no finding is about."""
    noun = "image or file" if count == 1 else "images or files"
    if drops_media(context, _find_level(context)):
        return f"images  {count:,} {noun} dropped; images=keep keeps them, unsearched"
    return f"images  {count:,} {noun} kept, unsearched; images=drop drops them"


def _create_text_job(args: argparse.Namespace, source: Source, console: Console) -> Job:
    """A text that can be read twice: values recognized late are masked from the start."""

    def find(context: Context) -> list[Finding]:
        with Progress(source.size, console) as progress:
            return search_text(source, context, progress)

    def write(out: BinaryIO, context: Context) -> dict[str, Any]:
        with Progress(source.size, console) as progress:
            known = collect_values(read_text(source, progress), context)
        if not args.output and console.stdout_is_terminal:
            return _filter_text(read_text(source), out, context, source.name, known)
        with Progress(source.size, console) as progress:
            return _filter_text(read_text(source, progress), out, context, source.name, known)

    return Job(source.name, source.path, find, write, [])


def _create_stream_job(console: Console) -> Job:
    """A text on stdin, filtered as it arrives."""

    def write(out: BinaryIO, context: Context) -> dict[str, Any]:
        chunks = check_text(read_chunks(console.stdin), "<stdin>")
        return _filter_text(chunks, out, context, "<stdin>", None)

    return Job("<stdin>", None, lambda context: [], write, [])


def _filter_text(
    chunks: Iterable[bytes], out: BinaryIO, context: Context, name: str, known: FoundValues | None
) -> dict[str, Any]:
    text = redact_text(chunks, context, os.path.basename(name), known)
    total = 0
    # Flushed piece by piece: a filter in a pipe must not hold back what is complete.
    for piece in text:
        total += out.write(piece)
        out.flush()
    return {"schema": _TEXT_SCHEMA, "output": None, "bytes": total, "redaction": text.notes}


def _write_result(args: argparse.Namespace, job: Job, context: Context, console: Console) -> None:
    if args.output:
        with atomic_file(Path(args.output)) as out:
            result = job.write(out, context)
    else:
        result = job.write(console.stdout, context)
    if result["schema"] == _TEXT_SCHEMA:
        result["output"] = args.output
        _print_text_result(result, job, context, console)
    if args.json and not args.report:
        console.print_json(result)


def _nothing_to_mask(context: Context) -> str:
    return f"nothing to mask at level {_find_level(context)}"


def _print_text_result(
    result: dict[str, Any], job: Job, context: Context, console: Console
) -> None:
    console.info(f"read    text  {escape_controls(job.name)}")
    for note in result["redaction"] or [_nothing_to_mask(context)]:
        console.info(f"redact  {note}")
    if result["output"]:
        console.info(f"wrote   {escape_controls(result['output'])}")


def _review_findings(
    args: argparse.Namespace,
    findings: list[Finding],
    context: Context,
    console: Console,
    remark: str,
) -> list[str] | None:
    """Return the user's decision on each finding; None when they quit."""
    if not findings:
        if remark:
            console.info(remark)
        console.info("review  nothing would be masked")
        return []

    def find_lock(finding: Finding) -> str:
        return explain_lock(finding, context)

    return review(findings, console, find_lock, writes=_has_output(args, console), remark=remark)


def _apply_decisions(
    findings: list[Finding],
    decisions: list[str],
    context: Context,
    settings: Settings,
    console: Console,
) -> Context:
    """Return the context with the values to keep; remember the false positives."""
    if not decisions:
        return context
    console.info(f"review  {summarize(decisions)}")
    decided = list(zip(findings, decisions, strict=True))
    false_positives = [finding for finding, decision in decided if decision == FALSE_POSITIVE]
    if false_positives:
        _remember_false_positives(false_positives, context, settings, console)
    return keep_values(context, decided)


def _remember_false_positives(
    findings: list[Finding], context: Context, settings: Settings, console: Console
) -> None:
    path = escape_controls(str(remember_false_positives(findings, context, settings.folders)))
    console.info(f"allow   {pluralize(len(findings), 'value')} added to {path}, by keyed hash")
