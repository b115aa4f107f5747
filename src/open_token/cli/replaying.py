"""`open-token replay serve` and `check`: the provider, the talk about each request, and what the
run came to."""

import argparse
import contextlib
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from open_token.cli.console import Console, close_stdout, plural, visible
from open_token.cli.recorded import Read, recorded
from open_token.cli.stopping import asked_to_stop
from open_token.errors import InputError, UsageError
from open_token.options import ExportOptions, guess_of
from open_token.replay.agents import settings, variables
from open_token.replay.endpoint import Endpoint
from open_token.replay.playing import Rules, Run, Verdict
from open_token.replay.recording import Recording, recording_of
from open_token.replay.report import Report, as_junit, as_object, report_of
from open_token.replay.sameness import Sameness, names_of
from open_token.storage.files import write_whole

_AS_IT_WAS = {
    "mode": "json",
    "pretty": "false",
    "redact": "none",
    "integrity": "none",
    "exported_at": "omit",
}
_GRACE = 20.0
"""Seconds that a command has to end by itself after it parted from the record."""
_LOOK = 0.2


def serve(args: argparse.Namespace, words: list[str], console: Console) -> int:
    """Answer until every step was asked for (--once), or until Ctrl-C."""
    read, run = _prepared(args, words, console)
    with _listening(args, run, console) as endpoint, asked_to_stop() as stop:
        _tell_agents(endpoint.url, args.agent, console)
        while not stop.is_set() and not (args.once and endpoint.finished.is_set()):
            stop.wait(_LOOK)
    report = report_of(run, read.mask)
    _tell(report, console, is_served=True)
    if args.json:
        _line(as_object(report, read.choice.source.name), console)
    return 1 if report.missed else 0


def check(args: argparse.Namespace, words: list[str], console: Console) -> int:
    """Run the person's command against the record."""
    if not args.command:
        raise UsageError(
            "which command shall run?",
            help='name it after --: open-token replay check SOURCE -- claude -p "..."',
        )
    if not args.within > 0:
        raise UsageError("--within takes a number of seconds", help="for example --within 600")
    if args.junit and Path(args.junit).is_dir():
        raise UsageError(
            "--junit takes a file", where=args.junit, help="name a file in that folder"
        )
    read, run = _prepared(args, words, console)
    with _listening(args, run, console, quiet_json=True) as endpoint:
        ended = _ran(args, endpoint, console)
    report = report_of(run, read.mask, ended)
    _tell(report, console)
    _tell_next(report, args, words, read, console)
    if args.junit:
        write_whole(Path(args.junit), as_junit(report, run, read.choice.source.name))
        console.say(f"wrote   {visible(args.junit)}")
    if args.json:
        console.json(as_object(report, read.choice.source.name))
    return 0 if report.is_same and ended == 0 else 1


def _prepared(args: argparse.Namespace, words: list[str], console: Console) -> tuple[Read, Run]:
    _check_words(args)
    read = recorded(args, words, ExportOptions.of(_AS_IT_WAS), console)
    recording = recording_of(read.document)
    if not recording.steps:
        raise InputError(
            "no model says anything in this conversation",
            help="is it the right one?",
            code="replay.none",
        )
    _tell_recording(recording, read, console)
    sameness = Sameness(args.strict, names_of([*recording.folders, str(console.cwd)]))
    rules = Rules(sameness, args.any_order, args.results == "any", args.on_miss == "stub")
    return read, Run(recording, rules)


def _check_words(args: argparse.Namespace) -> None:
    if args.strict and args.any_order:
        raise UsageError("--strict and --any-order exclude each other", help="keep one of them")
    if not 0 <= args.port < 65536:
        raise UsageError(
            "--port takes a number from 0 to 65535", help="leave it out, and a free one is taken"
        )
    known = settings("")
    if args.agent is not None and args.agent not in known:
        guess = guess_of(args.agent, known)
        raise UsageError(
            f"there is no agent '{args.agent[:60]}'",
            help=f"{guess}the agents are {', '.join(known)}",
        )


def _tell_recording(recording: Recording, read: Read, console: Console) -> None:
    calls = sum(len(step.calls) for step in recording.steps)
    name = visible(read.choice.source.name)
    console.say(
        f"read    {read.receipt.reader}  {name}  {plural(len(recording.steps), 'answer')}, {plural(calls, 'call')}"
    )
    if recording.behind:
        left = ", ".join(f"{what}: {count:,}" for what, count in recording.behind.items())
        console.say(f"behind  {left}")
    if recording.has_marks:
        console.warn(
            "this record was redacted or cut: a mark in it matches anything, and answers hold marks"
        )


@contextlib.contextmanager
def _listening(
    args: argparse.Namespace, run: Run, console: Console, quiet_json: bool = False
) -> Iterator[Endpoint]:
    """The provider, in a thread of its own."""
    lock = threading.Lock()

    def told(verdict: Verdict) -> None:
        with lock:
            _tell_verdict(verdict, len(run.recording.steps), console)
            if args.json and not quiet_json:
                try:
                    _line(_as_line(verdict), console)
                except BrokenPipeError:  # whoever reads along may stop: the agent is still answered
                    close_stdout()

    endpoint = Endpoint(run, args.port, told)
    with endpoint.serving(_LOOK):
        yield endpoint


def _ran(args: argparse.Namespace, endpoint: Endpoint, console: Console) -> int:
    """The command's exit code; it is ended when it goes on for too long, or after it parted."""
    command = [word.replace("{url}", endpoint.url) for word in args.command]
    env = {**console.env, **variables(endpoint.url, args.agent)}
    console.say(f"run     {visible(shlex.join(command))}")
    sys.stdout.flush()
    try:
        child = subprocess.Popen(
            command, env=env, stdout=sys.stderr.fileno() if args.json else None
        )
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it cannot be a command"
        raise UsageError(
            f"cannot run the command: {reason}", where=command[0][:200], help="is it installed?"
        ) from None
    try:
        return _waited(child, endpoint.run, args.within, console)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _waited(child: "subprocess.Popen[bytes]", run: Run, within: float, console: Console) -> int:
    end = time.monotonic() + within
    is_last = is_told = False
    while True:
        try:
            return child.wait(_LOOK)
        except subprocess.TimeoutExpired:
            if run.parted is not None and not run.rules.stub and not is_last:
                end, is_last = min(end, time.monotonic() + _GRACE), True
            if time.monotonic() > end and is_told:
                child.kill()
            elif time.monotonic() > end:
                child.terminate()
                console.warn("the command went on for too long and was ended")
                end, is_told = time.monotonic() + _GRACE, True


def _tell_agents(url: str, agent: str | None, console: Console) -> None:
    """How to lead an agent here, to be copied."""
    console.say(f"open    {url}   only this machine may ask; Ctrl-C stops")
    console.say("note    answers come as they were recorded, unmasked")
    for name, setting in settings(url).items():
        if agent in (None, name):
            console.say(f"# {setting.title}")
            for variable, value in setting.env.items():
                console.say(f"export {variable}={shlex.quote(value)}")
            if setting.command:
                console.say(setting.command)


def _tell_verdict(verdict: Verdict, total: int, console: Console) -> None:
    step = verdict.step
    place = f"step {step.number}/{total}" if step else f"step -/{total}"
    called = ", ".join(visible(call.name) for call in verdict.answer.calls)
    why = f": {visible(verdict.parted.where)} differs" if verdict.parted and step else ""
    if verdict.parted and not step:
        why = ": the record is at its end"
    console.say(
        f"{place:12} {verdict.outcome:8} {verdict.wire}{why}{f'  calls {called}' if called else ''}".rstrip()
    )
    for name in verdict.lacking:
        console.warn(f"the record calls {visible(name)}, which this request does not offer")


def _as_line(verdict: Verdict) -> dict[str, object]:
    step = verdict.step
    told = {"request": verdict.number, "wire": verdict.wire, "result": verdict.outcome}
    place = {"step": step.number, "seq": step.seq, "lane": step.lane} if step else {"step": None}
    where = {"where": verdict.parted.where} if verdict.parted else {}
    return {"schema": "open-token/replay-request/1", **told, **place, **where}


def _line(value: dict[str, object], console: Console) -> None:
    out = console.payload
    out.write(msgspec.json.encode(value) + b"\n")
    out.flush()


def _tell(report: Report, console: Console, *, is_served: bool = False) -> None:
    """How far the run came, and where it parted first; who stops serving in the middle parted from
    nothing."""
    extra = [
        f"{count:,} {what}"
        for count, what in ((report.repeated, "repeated"), (report.aside, "aside"))
        if count
    ]
    console.say(
        f"served  {report.served:,} of {plural(report.steps, 'step')}{''.join(f', {word}' for word in extra)}"
    )
    parting = report.parting
    if parting is None:
        console.say("same    every recorded step was asked for, as it was recorded")
    elif is_served and not report.missed:
        console.say(
            f"left    step {parting.step} (event {parting.seq}) and what comes after it were not asked for"
        )
    else:
        place = (
            f"at step {parting.step} (event {parting.seq})"
            if parting.step
            else "after the last step"
        )
        console.say(f"parted  {place}: {visible(parting.where)}")
        sides = (("recorded", parting.recorded), ("given", parting.given))
        for side, text in sides if parting.recorded or parting.given else ():
            console.say(
                f"  {side:8}  {visible(text.replace(chr(10), chr(92) + 'n')) or '(nothing)'}"
            )
    if report.command:
        console.say(f"command ended with {report.command}")


def _tell_next(
    report: Report, args: argparse.Namespace, words: list[str], read: Read, console: Console
) -> None:
    """How to look at the place, and how to forgive what made the run part."""
    parting = report.parting
    if parting is None or parting.seq is None:
        return
    source = words[0] if words else read.choice.source.name
    which = ["--conversation", args.conversation] if args.conversation else []
    view = ["open-token", "replay", "view", source, *which, "--start", str(parting.seq)]
    console.say(f"next    {visible(shlex.join(view))}")
    if parting.where.startswith("the result of "):
        console.say("note    with --results any, what tools give back may differ from the record")
