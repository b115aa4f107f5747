"""`open-token replay serve` and `check`: answer an agent from a recording, report the result."""

import argparse
import contextlib
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from open_token.cli.replay.source import LoadedSession, load_session
from open_token.cli.shared.console import Console, discard_stdout, escape_controls, pluralize
from open_token.cli.shared.signals import stop_event_on_signals
from open_token.errors import InputError, UsageError
from open_token.options import ExportOptions, suggest_match
from open_token.replay.agents import build_environment, build_settings
from open_token.replay.endpoint import Endpoint
from open_token.replay.equivalence import Equivalence, list_path_names
from open_token.replay.player import ReplayRules, ReplaySession, Verdict
from open_token.replay.recording import Recording, build_recording
from open_token.replay.report import Report, build_report, to_json_object, to_junit
from open_token.storage.files import write_atomic

_VERBATIM_OPTIONS = {
    "mode": "json",
    "pretty": "false",
    "redact": "none",
    "integrity": "none",
    "exported_at": "omit",
}
_GRACE_SECONDS = 20.0
"""Time for a command to end by itself after it diverged from the recording."""
_POLL_SECONDS = 0.2


def serve(args: argparse.Namespace, words: list[str], console: Console) -> int:
    """Serve until Ctrl-C, or with --once until the last step."""
    session, run = _prepare(args, words, console)
    with _listen(args, run, console) as endpoint, stop_event_on_signals() as stop:
        _print_agent_settings(endpoint.url, args.agent, console)
        while not stop.is_set() and not (args.once and endpoint.finished.is_set()):
            stop.wait(_POLL_SECONDS)
    report = build_report(run, session.mask)
    _print_report(report, console, is_served=True)
    if args.json:
        _print_json_line(to_json_object(report, session.selected.source.name), console)
    return 1 if report.missed else 0


def check(args: argparse.Namespace, words: list[str], console: Console) -> int:
    """Run the user's command against the recording."""
    if not args.command:
        raise UsageError(
            "`replay check` needs a COMMAND",
            help='add it after --: open-token replay check SOURCE -- claude -p "..."',
        )
    if not args.within > 0:
        raise UsageError(
            "--within must be a positive number of seconds", help="for example --within 600"
        )
    if args.junit and Path(args.junit).is_dir():
        raise UsageError(
            "--junit must be a file", where=args.junit, help="name a file in that folder"
        )
    session, run = _prepare(args, words, console)
    with _listen(args, run, console, has_json=False) as endpoint:
        exit_code = _run_command(args, endpoint, console)
    report = build_report(run, session.mask, exit_code)
    _print_report(report, console)
    _print_next_step(report, args, words, session, console)
    name = session.selected.source.name
    if args.junit:
        write_atomic(Path(args.junit), to_junit(report, run, name))
        console.info(f"wrote   {escape_controls(args.junit)}")
    if args.json:
        console.print_json(to_json_object(report, name))
    if report.is_same and exit_code == 0:
        return 0
    return 1


def _prepare(
    args: argparse.Namespace, words: list[str], console: Console
) -> tuple[LoadedSession, ReplaySession]:
    _check_arguments(args)
    session = load_session(args, words, ExportOptions.of(_VERBATIM_OPTIONS), console)
    recording = build_recording(session.document)
    if not recording.steps:
        raise InputError(
            "the session contains no model output",
            help="check that it is the right one",
            code="replay.none",
        )
    _print_recording(recording, session, console)
    folders = list_path_names([*recording.folders, str(console.cwd)])
    # Paths differ between the recorded folder and this one.
    sameness = Equivalence(args.strict, folders)
    rules = ReplayRules(sameness, args.any_order, args.results == "any", args.on_miss == "stub")
    return session, ReplaySession(recording, rules)


def _check_arguments(args: argparse.Namespace) -> None:
    if args.strict and args.any_order:
        raise UsageError("--strict and --any-order are mutually exclusive", help="use one of them")
    if not 0 <= args.port < 65536:
        raise UsageError(
            "--port must be between 0 and 65535", help="remove it to use any free port"
        )
    known = build_settings("")
    if args.agent is not None and args.agent not in known:
        guess = suggest_match(args.agent, known)
        raise UsageError(
            f"unknown agent '{args.agent[:60]}'",
            help=f"{guess}available agents: {', '.join(known)}",
        )


def _print_recording(recording: Recording, session: LoadedSession, console: Console) -> None:
    calls = sum(len(step.calls) for step in recording.steps)
    name = escape_controls(session.selected.source.name)
    counts = f"{pluralize(len(recording.steps), 'answer')}, {pluralize(calls, 'call')}"
    console.info(f"read    {session.receipt.reader}  {name}  {counts}")
    if recording.skipped:
        omitted = ", ".join(f"{what}: {count:,}" for what, count in recording.skipped.items())
        console.info(f"omitted {omitted}")
    if recording.has_markers:
        console.warn(
            "the recording was redacted or truncated: a marker in it matches anything, "
            "and answers contain markers"
        )


@contextlib.contextmanager
def _listen(
    args: argparse.Namespace, run: ReplaySession, console: Console, *, has_json: bool = True
) -> Iterator[Endpoint]:
    """Run the server in a thread, and print a line for each request."""
    lock = threading.Lock()

    def report_request(verdict: Verdict) -> None:
        with lock:
            _print_request(verdict, len(run.recording.steps), console)
            if args.json and has_json:
                try:
                    _print_json_line(_request_to_json(verdict), console)
                except BrokenPipeError:
                    # The reader of the log went away; the agent is still answered.
                    discard_stdout()

    endpoint = Endpoint(run, args.port, report_request)
    with endpoint.serving(_POLL_SECONDS):
        yield endpoint


def _run_command(args: argparse.Namespace, endpoint: Endpoint, console: Console) -> int:
    """Run the command and return its exit code."""
    command = [word.replace("{url}", endpoint.url) for word in args.command]
    env = {**console.env, **build_environment(endpoint.url, args.agent)}
    console.info(f"run     {escape_controls(shlex.join(command))}")
    sys.stdout.flush()
    # With --json, stdout is for the report.
    stdout = sys.stderr.fileno() if args.json else None
    try:
        child = subprocess.Popen(command, env=env, stdout=stdout)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "not a valid command"
        raise UsageError(
            f"cannot run the command: {reason}",
            where=command[0][:200],
            help="check that it is installed",
        ) from None
    try:
        return _wait_for_command(child, endpoint.session, args.within, console)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _wait_for_command(
    child: "subprocess.Popen[bytes]", run: ReplaySession, within: float, console: Console
) -> int:
    """Wait for the command; end it at the time limit, or some time after it diverged."""
    deadline = time.monotonic() + within
    has_diverged = False
    is_terminated = False
    while True:
        try:
            return child.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if run.first_miss is not None and not run.rules.stub and not has_diverged:
            has_diverged = True
            deadline = min(deadline, now + _GRACE_SECONDS)
        if now <= deadline:
            continue
        if is_terminated:
            child.kill()
            continue
        child.terminate()
        console.warn("the command exceeded its time limit and was terminated")
        is_terminated = True
        deadline = now + _GRACE_SECONDS


def _print_agent_settings(url: str, agent: str | None, console: Console) -> None:
    """Print how to point an agent to the server, ready to be pasted."""
    console.info(f"listen  {url}   for this machine only; stop with Ctrl-C")
    console.info("note    answers are served as recorded, unmasked")
    for name, setting in build_settings(url).items():
        if agent not in (None, name):
            continue
        console.info(f"# {setting.title}")
        for variable, value in setting.env.items():
            console.info(f"export {variable}={shlex.quote(value)}")
        if setting.command:
            console.info(setting.command)


def _print_request(verdict: Verdict, total: int, console: Console) -> None:
    step = verdict.step
    number = f"step {step.number if step else '-'}/{total}"
    line = f"{number:12} {verdict.outcome:8} {verdict.protocol}"
    if verdict.difference and step:
        line += f": {escape_controls(verdict.difference.where)} differs"
    elif verdict.difference:
        line += ": end of the recording"
    calls = ", ".join(escape_controls(call.name) for call in verdict.answer.calls)
    if calls:
        line += f"  calls {calls}"
    console.info(line.rstrip())
    for name in verdict.missing_tools:
        tool = escape_controls(name)
        console.warn(f"the recording calls {tool}, which this request does not offer")


def _request_to_json(verdict: Verdict) -> dict[str, Any]:
    step = verdict.step
    line: dict[str, Any] = {
        "schema": "open-token/replay-request/1",
        "request": verdict.number,
        "wire": verdict.protocol,
        "result": verdict.outcome,
        "step": step.number if step else None,
    }
    if step:
        line["seq"] = step.seq
        line["lane"] = step.lane
    if verdict.difference:
        line["where"] = verdict.difference.where
    return line


def _print_json_line(value: dict[str, Any], console: Console) -> None:
    out = console.stdout
    out.write(msgspec.json.encode(value) + b"\n")
    out.flush()


def _print_report(report: Report, console: Console, *, is_served: bool = False) -> None:
    """Print how far the run came and where it diverged first.

    A server that is stopped in the middle has not diverged."""
    served = f"served  {report.served:,} of {pluralize(report.steps, 'step')}"
    if report.repeated:
        served += f", {report.repeated:,} repeated"
    if report.aside:
        served += f", {report.aside:,} aside"
    console.info(served)
    divergence = report.divergence
    if divergence is None:
        console.info("same    every recorded step was requested as recorded")
    elif is_served and not report.missed:
        step = f"step {divergence.step} (event {divergence.seq})"
        console.info(f"left    {step} and later steps were not requested")
    else:
        where = "after the last step"
        if divergence.step:
            where = f"at step {divergence.step} (event {divergence.seq})"
        console.info(f"diverged {where}: {escape_controls(divergence.where)}")
        if divergence.recorded or divergence.given:
            _print_side("recorded", divergence.recorded, console)
            _print_side("given", divergence.given, console)
    if report.command:
        console.info(f"command exited with {report.command}")


def _print_side(label: str, text: str, console: Console) -> None:
    shown = escape_controls(text.replace("\n", "\\n")) or "(nothing)"
    console.info(f"  {label:8}  {shown}")


def _print_next_step(
    report: Report,
    args: argparse.Namespace,
    words: list[str],
    session: LoadedSession,
    console: Console,
) -> None:
    """Print how to view the divergence, and how to accept other results."""
    divergence = report.divergence
    if divergence is None or divergence.seq is None:
        return
    view = ["open-token", "replay", "view", words[0] if words else session.selected.source.name]
    if args.conversation:
        view += ["--conversation", args.conversation]
    view += ["--start", str(divergence.seq)]
    console.info(f"next    {escape_controls(shlex.join(view))}")
    if divergence.where.startswith("the result of "):
        console.info("note    --results any accepts other tool results than the recorded ones")
