"""`open-token redact`: a conversation or a text with marks, after a look at what they stand for."""

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from open_token.cli.arriving import arriving, as_text
from open_token.cli.choosing import Choice, choose_source
from open_token.cli.choosing_one import choose_one
from open_token.cli.console import Console, plural, visible
from open_token.cli.export import tell
from open_token.cli.found import Found, tell_check, tell_report
from open_token.cli.progress import Progress
from open_token.cli.review import FALSE, MASK, review, summary
from open_token.cli.wanted import add_options, wanted_options, warn
from open_token.context import Context
from open_token.errors import InputError, OutputError, UsageError
from open_token.library import context_for
from open_token.options import split_words
from open_token.passes import select
from open_token.passes.explaining import known_values
from open_token.passes.findings import Finding, allow_hash, findings_in, findings_of
from open_token.passes.text import Known, redacted_text, text_level
from open_token.pipeline import export, read
from open_token.registry import detect_format
from open_token.settings import Settings, allow_for_good, load_settings
from open_token.sources.source import Source
from open_token.storage.files import whole_file

HELP = """Mask secrets and personal data in a conversation or a text, or look at what would be.

usage: open-token redact SOURCE [-o FILE] [--level L] [--report FILE] [--review]
       open-token redact --check SOURCE ... [--level L] [--report FILE]

  open-token redact talk.jsonl --review -o shared.json     decide on each find
  open-token redact --check --level pii logs/*.txt         for CI: exit 1 if there are any
  make 2>&1 | open-token redact - > build.log

SOURCE   a conversation, as for `open-token export`: the outcome is its export, redacted;
         any other text file, or - for text on stdin: the outcome is that text
  -o FILE        write to FILE, whole or not at all
  --level L      secrets (the default), pii or strict; the same as redact=L
  --check        write nothing; exit 1 if something would be masked in one of the sources
  --report FILE  tell as JSON what is masked, by which rule, where; no value is in it
                 (- for stdout, in place of the outcome)
  --review       go through the finds: mask, keep, or false for good, which your settings
                 remember as a keyed hash
  --text         SOURCE is text, whatever it looks like   --from READER  it is a conversation
  --conversation ID|N   which one of a file that holds several
Options as for export: strategy, include, internal, mode, ...  Nothing leaves this machine.
Exit: 0 done, or nothing to mask  1 --check found some  2 usage  3 cannot be read or written
"""

_NOT_A_TALK = ("input.unknown", "input.json", "input.empty")
_CHUNK = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SOURCE and options in any order."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("-o", "--output", metavar="FILE")
    parser.add_argument("--level", metavar="LEVEL", dest="level")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--report", metavar="FILE")
    parser.add_argument("--review", action="store_true")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--from", dest="reader", metavar="READER")
    parser.add_argument("--conversation", metavar="ID")
    add_options(parser)


class Work(NamedTuple):
    """How one kind of source is looked through and written."""

    name: str
    path: Path | None
    findings: Callable[[Context], list[Finding]]
    write: Callable[[BinaryIO, Context], dict[str, object]]


def run(args: argparse.Namespace, console: Console) -> int:
    """Look at what would be masked, as far as that is wanted, then write."""
    words, others = split_words(args.words)
    if args.level is not None:
        args.option_redact.append(args.level)
    settings = load_settings(console.env, console.cwd)
    options = wanted_options(args, words, settings.defaults)
    _check(args, console)
    warn(options, settings.policy, console)
    for remark in settings.remarks:
        console.warn(visible(remark))
    context = context_for(options, settings, console.env)
    works = [_work(args, word, context, console) for word in _sources(args, others)]
    for work in works:
        _spare_source(args, work)
    if args.check:
        return _tell_all(args, works, context, console)
    work = works[0]
    context = _for_source(context, work)
    if not (args.report or args.review):
        return _write(args, work, context, console)
    findings, decisions = work.findings(context), None
    if args.review:
        decisions = _decide(args, findings, context, console)
        if decisions is None:
            console.say("left the review; nothing was written, nothing is remembered")
            return 130
        context = _decided(findings, decisions, context, settings, console)
    _outcome(args, work, context, console)
    if args.report:
        tell_report([Found(work.name, _level(context), findings, decisions)], args.report, console)
    return 0


def _tell_all(
    args: argparse.Namespace, works: list[Work], context: Context, console: Console
) -> int:
    """What --check says of one source or several."""
    found = [
        Found(work.name, _level(context), work.findings(_for_source(context, work)))
        for work in works
    ]
    if args.report or args.json:
        tell_report(found, args.report or "-", console)
    return tell_check(found, console, has_table=not args.json and args.report != "-")


def _for_source(context: Context, work: Work) -> Context:
    return replace(context, source=str(work.path or work.name))


def _level(context: Context) -> str:
    return text_level(context) or "none"


def _outcome(args: argparse.Namespace, work: Work, context: Context, console: Console) -> None:
    """Write the outcome, unless only a word about it is wanted."""
    if args.report == "-" and not args.output:
        return
    if args.review and not _writes(args, console):
        console.say("next    add -o FILE to write the outcome; nothing was written")
        return
    _write(args, work, context, console)


def _writes(args: argparse.Namespace, console: Console) -> bool:
    """Whether a review has somewhere to write to; a screen is for the review itself."""
    return bool(args.output) or not (console.out_is_terminal or args.report == "-")


def _check(args: argparse.Namespace, console: Console) -> None:
    if args.output == "-":
        args.output = None
    if args.review and args.check:
        raise UsageError("--review asks a person, --check does not", help="keep one of them")
    if args.check and args.output:
        raise UsageError("--check writes nothing", help="leave -o out, or --check")
    if args.review and (not console.is_terminal or console.env.get("TERM") == "dumb"):
        remedy = "run it in one, or see what there is with --check or --report FILE"
        if "-" in args.words and console.err_is_terminal:
            remedy = "stdin brings the text and cannot bring keys, too: save the text in a file and review that"
        raise UsageError("--review asks, and this is not a terminal", help=remedy)
    if args.text and args.reader:
        raise UsageError("--text and --from exclude each other", help="keep one of them")
    if args.json and not (args.output or args.check or args.report):
        raise UsageError("--json tells about a written file", help="add -o FILE or --check")
    for name in filter(None, (args.output, args.report)):
        if os.path.isdir(name):
            raise OutputError(
                "the output is a folder", where=name, help="name a file in it; nothing was written"
            )
        if name != "-" and not os.path.isdir(os.path.dirname(name) or "."):
            raise OutputError(
                "there is no folder for the output", where=name, help="make it; nothing was written"
            )
    if (
        args.report
        and args.output
        and os.path.realpath(args.report) == os.path.realpath(args.output)
    ):
        raise UsageError("-o and --report name the same file", help="give the report another name")


def _spare_source(args: argparse.Namespace, work: "Work") -> None:
    for name in filter(None, (args.output, args.report)):
        if work.path and os.path.isfile(name) and os.path.samefile(work.path, name):
            raise UsageError(
                "the output would replace the source itself", where=name, help="choose another name"
            )


def _sources(args: argparse.Namespace, words: list[str]) -> list[str]:
    if not words:
        remedy = "name a file or a conversation, last for the newest one, or - for text on stdin"
        raise UsageError("redact needs a source", help=remedy)
    if len(words) > 1 and not args.check:
        raise UsageError(
            f"one source at a time, {len(words)} were given", help="only --check takes several"
        )
    return words


def _work(args: argparse.Namespace, word: str, context: Context, console: Console) -> Work:
    if word == "-" and not args.reader:
        if args.check or args.report or args.review:
            return _text(args, Source.of_stream(console.stdin, "<stdin>"), console)
        return _stdin(console)
    try:
        choice = choose_source([word], console, current=False, picking=False)
        is_text = args.text or _is_text(args, choice)
    except InputError as problem:
        raise _without_values(problem, context) from None
    return _text(args, choice.source, console) if is_text else _conversation(args, choice, console)


def _without_values(problem: InputError, context: Context) -> InputError:
    """An error about a word that is perhaps no name of a file but the very text that somebody wants
    masked."""
    strict = replace(context, options=context.options.changed(redact="pii"))
    where = b"".join(
        redacted_text([(problem.where or "").encode("utf-8", "replace")], strict, "")
    ).decode()
    is_missing = problem.code in ("input", "input.missing")
    remedy = (
        f"{problem.help}; text goes through stdin: open-token redact -"
        if is_missing
        else problem.help
    )
    return InputError(problem.what, where=where or None, help=remedy, code=problem.code)


def _is_text(args: argparse.Namespace, choice: Choice) -> bool:
    """Whether no reader knows the input; what one knows and cannot read is an error, not a text."""
    if args.reader or choice.reader:
        return False
    try:
        detect_format(choice.source)
    except InputError as problem:
        if problem.code in _NOT_A_TALK and not choice.source.is_folder:
            return True
        raise
    return False


def _conversation(args: argparse.Namespace, choice: Choice, console: Console) -> Work:
    source = choice.source
    if choice.how:
        console.say(f"source  {choice.how}")
    reader = choose_one(args, choice, console)

    def findings(context: Context) -> list[Finding]:
        with Progress(source.size, console) as progress:
            source.progress = progress
            found = findings_of(select(read(source, context, reader), context), context)
        source.progress = None
        return found

    def write(out: BinaryIO, context: Context) -> dict[str, object]:
        started = time.monotonic()
        with Progress(source.size, console) as progress:
            source.progress = progress
            watched = progress.with_file(out) if args.output else progress.until_written(out)
            receipt = export(source, watched, context, reader)
        source.progress = None
        told = (
            receipt
            if receipt.redaction
            else msgspec.structs.replace(receipt, redaction=[_nothing(context)])
        )
        tell(told, choice, args.output, time.monotonic() - started, console)
        return {
            "schema": "open-token/receipt/1",
            "output": args.output,
            **msgspec.to_builtins(receipt),
        }

    return Work(source.name, source.path, findings, write)


def _text(args: argparse.Namespace, source: Source, console: Console) -> Work:
    """A text that can be read twice: what is recognised late is masked from the start."""

    def chunks(*, is_told: bool = True) -> Iterator[bytes]:
        done = 0
        with source.opened() as stream, Progress(source.size, console) as progress:
            for chunk in as_text(iter(lambda: stream.read(_CHUNK), b""), source.name):
                done += len(chunk)
                if is_told:
                    progress(done)
                yield chunk

    def findings(context: Context) -> list[Finding]:
        return findings_in(chunks(), context, known_values(chunks(), context))

    def write(out: BinaryIO, context: Context) -> dict[str, object]:
        known = known_values(chunks(), context)
        told = chunks(is_told=bool(args.output) or not console.out_is_terminal)
        return _filtered(told, out, context, source.name, known)

    return Work(source.name, source.path, findings, write)


def _stdin(console: Console) -> Work:
    """A text that streams by once; what is there comes out when it pauses."""

    def write(out: BinaryIO, context: Context) -> dict[str, object]:
        return _filtered(as_text(arriving(console.stdin), "<stdin>"), out, context, "<stdin>", None)

    return Work("<stdin>", None, lambda context: [], write)


def _filtered(
    chunks: Iterable[bytes], out: BinaryIO, context: Context, name: str, known: Known | None
) -> dict[str, object]:
    text = redacted_text(chunks, context, os.path.basename(name), known)
    total = 0
    for piece in text:
        total += out.write(piece)
        out.flush()
    return {
        "schema": "open-token/redacted-text/1",
        "output": None,
        "bytes": total,
        "redaction": text.notes,
    }


def _write(args: argparse.Namespace, work: Work, context: Context, console: Console) -> int:
    if not args.output:
        facts = work.write(console.payload, context)
    else:
        with whole_file(Path(args.output)) as out:
            facts = work.write(out, context)
    if facts["schema"] == "open-token/redacted-text/1":
        facts["output"] = args.output
        _tell_text(facts, work, context, console)
    if args.json and not args.report:
        console.json(facts)
    return 0


def _nothing(context: Context) -> str:
    return f"nothing to mask at level {_level(context)}"


def _tell_text(facts: dict[str, object], work: Work, context: Context, console: Console) -> None:
    console.say(f"read    text  {visible(work.name)}")
    notes = facts["redaction"]
    for note in notes if isinstance(notes, list) and notes else [_nothing(context)]:
        console.say(f"redact  {note}")
    if facts["output"]:
        console.say(f"wrote   {visible(str(facts['output']))}")


def _decide(
    args: argparse.Namespace, findings: list[Finding], context: Context, console: Console
) -> list[str] | None:
    """What a person decides on each find; None when they quit."""
    if not findings:
        console.say("review  nothing would be masked")
        return []

    def locked(finding: Finding) -> str:
        if finding.type == "private_key" and context.policy.never_export_private_keys:
            return "the policy never lets private keys out"
        return ""

    return review(findings, console, locked, writes=_writes(args, console))


def _decided(
    findings: list[Finding],
    decisions: list[str],
    context: Context,
    settings: Settings,
    console: Console,
) -> Context:
    """The context with what a person decided; what is false for good is remembered."""
    if not decisions:
        return context
    console.say(f"review  {summary(decisions)}")
    false = [
        finding for finding, decision in zip(findings, decisions, strict=True) if decision == FALSE
    ]
    if false:
        _remember(false, context, settings, console)
    kept = {item.canonical for item, said in zip(findings, decisions, strict=True) if said != MASK}
    return replace(context, screen=replace(context.screen, kept=context.screen.kept | kept))


def _remember(false: list[Finding], context: Context, settings: Settings, console: Console) -> None:
    if context.key is None:
        raise UsageError(
            "what is false for good is remembered by a keyed hash, and there is no key",
            help="let the settings folder be written (OPEN_TOKEN_HOME moves it), or keep it in this export only",
        )
    day = (context.now or "")[:10]
    entries = [
        (allow_hash(finding, context.key), f"{finding.type}, rule {finding.rule}, {day}")
        for finding in false
    ]
    path = allow_for_good(settings.folders, entries)
    console.say(
        f"allow   {plural(len(entries), 'value')} added to {visible(str(path))}, by keyed hash"
    )
