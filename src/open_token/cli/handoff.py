"""`open-token handoff`: a conversation as a session of another agent, which goes on where the first
one stopped."""

import argparse
import os
import shlex
from pathlib import Path
from typing import cast

import msgspec

from open_token.cli.choosing import Choice, choose_source
from open_token.cli.choosing_one import choose_one
from open_token.cli.console import Console, plural, size, visible
from open_token.cli.export import check_reader, must_not_replace, tell
from open_token.cli.wanted import add_options, wanted_options, warn
from open_token.errors import InputError, OutputError, UsageError
from open_token.handoff import Scene, Session, Talk, list_target_names, talk_of, target
from open_token.library import context_for
from open_token.model import Export
from open_token.options import split_words
from open_token.pipeline import Bounded, export
from open_token.settings import load_settings
from open_token.storage.files import make_parents, write_whole

HELP = """Let another agent go on with a conversation: written as a session of its own.

usage: open-token handoff [SOURCE] --to AGENT [key=value ...]

  open-token handoff --to codex                  the newest conversation of this folder
  open-token handoff talk.json --to claude-code --cwd ~/project
  open-token handoff last --to pi -o talk.jsonl  to a file, to be started from there

SOURCE   a file, a folder, - for stdin, an id or its start, last, @2 (the second newest)
  --to AGENT     claude-code, codex, gemini-cli, qwen-code, opencode, copilot-cli, pi
  --cwd DIR      the folder in which the work goes on; the working folder if left out
  --whole        from the beginning, not from the last compaction on
  --again        one more copy, where this conversation was handed over before
  -o FILE        write the session to FILE only; nothing in the agent's own folders
  --pick, --current, --from, --conversation and the options: as for export
Words, calls and results go over; thoughts stay behind, and so do system prompts, images
and what subagents said among themselves, which are counted. Secrets are masked unless
redact=none.
No file of the agent is changed: a new one is put beside them. Stdout has the command that
goes on; the last words of the session tell the agent that it is a record.
Exit: 0 written  2 usage  3 cannot be read or written
"""


MOST = 256 << 20
"""Bytes of a document that is handed over; it is held in memory, and no model takes a hundredth of
it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SOURCE, the agent and options in any order."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("--to", metavar="AGENT")
    parser.add_argument("--cwd", metavar="DIR")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("-o", "--output", metavar="FILE")
    parser.add_argument("--from", dest="reader", metavar="READER")
    parser.add_argument("--pick", action="store_true")
    parser.add_argument("--current", action="store_true")
    parser.add_argument("--conversation", metavar="ID")
    add_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Read the conversation, write the session, say how to go on."""
    agent = target(_named(args))
    cwd = _folder(args, console)
    _check_output(args)
    talk = talk_of(_document(args, console), whole=args.whole)
    if talk.behind:
        left = ", ".join(f"{what}: {count:,}" for what, count in talk.behind.items())
        console.say(f"behind  {left}")
    if not talk.turns:
        raise InputError(
            "nobody says anything in this conversation",
            help="nothing was written; is it the right one?",
        )
    if talk.is_copy and not _is_named(args):
        raise InputError(
            "the newest conversation is a copy that was handed over, and nobody went on with it yet",
            help="name the one that you mean; `open-token sessions` lists them. Nothing was written",
        )
    scene = Scene(cwd, console.home, console.env)
    session = agent.session(talk, scene)
    known = _is_there(session)
    while args.again and not args.output and _is_there(session):
        scene = msgspec.structs.replace(scene, copy=scene.copy + 1)
        session = agent.session(talk, scene)
    start, paths = _written(args, console, session)
    is_there = known and not args.again and not args.output
    _tell(talk, agent.TITLE, paths, is_there, console)
    commands = [shlex.join(command) for command in start]
    if commands and Path(cwd) != console.cwd.resolve() and not args.output:
        commands = [f"cd {shlex.quote(cwd)}", *commands]
    if args.json:
        facts = {
            "to": args.to,
            "id": session.id,
            "files": paths,
            "written": not is_there,
            "start": commands,
        }
        facts["turns"] = len(talk.turns) - 1
        console.json(
            {
                "schema": "open-token/handoff/1",
                **facts,
                "calls": len(talk.calls),
                "behind": dict(talk.behind),
            }
        )
    elif commands:
        console.out(" && ".join(commands))
    return 0


def _named(args: argparse.Namespace) -> str:
    if not args.to:
        raise UsageError(
            "which agent shall go on?", help=f"name it: --to {'|'.join(list_target_names())}"
        )
    check_reader(args)
    return str(args.to)


def _is_named(args: argparse.Namespace) -> bool:
    """Whether the conversation was chosen by somebody, and not for being the newest."""
    _, words = split_words(args.words)
    return args.pick or args.current or bool(words and words[0] != "last")


def _folder(args: argparse.Namespace, console: Console) -> str:
    """The real path of the project: agents look for their sessions by it."""
    folder = console.cwd / os.path.expanduser(args.cwd or ".")
    if not folder.is_dir():
        raise UsageError(
            "this is no folder",
            where=args.cwd,
            help="name the project's folder, which must be there",
        )
    path = str(folder.resolve())
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "agents cannot name this folder", help="its path has bytes that are no text: rename it"
        ) from None
    return path


def _check_output(args: argparse.Namespace) -> None:
    if args.output == "-":
        raise UsageError(
            "-o takes a file here", help="name one: stdout has the command that goes on with it"
        )
    if args.output and os.path.isdir(args.output):
        raise OutputError(
            "the output is a folder",
            where=args.output,
            help="name a file in it; nothing was written",
        )


def _document(args: argparse.Namespace, console: Console) -> Export:
    options, others = split_words(args.words)
    settings = load_settings(console.env, console.cwd)
    chosen = wanted_options(args, options, settings.defaults)
    warn(chosen, settings.policy, console)
    choice: Choice = choose_source(others, console, current=args.current, picking=args.pick)
    if choice.how:
        console.say(f"source  {choice.how}")
    if args.output:
        must_not_replace(choice.source, args.output)
    reader = choose_one(args, choice, console)
    too_long = InputError(
        "this conversation is too long to be handed over",
        help="cut it to what the next model can take, for example max_bytes=1000000 drop=oldest",
        code="handoff.long",
    )
    out = Bounded(MOST, too_long)
    plain = chosen.changed(mode="json", pretty=False, include="visible-only", native="none")
    receipt = export(choice.source, out, context_for(plain, settings, console.env), reader)
    tell(receipt, choice, None, 0, console)
    return cast(Export, msgspec.json.decode(out.getvalue()))


def _is_there(session: Session) -> bool:
    return next(iter(session.files)).exists()


def _written(
    args: argparse.Namespace, console: Console, session: Session
) -> tuple[list[list[str]], list[str]]:
    """Write what is not there; gives the commands that go on, and the paths."""
    first = next(iter(session.files))
    if args.output:
        write_whole(Path(args.output), session.files[first], 0o600)
        start = (
            [[*session.loose, str((console.cwd / args.output).absolute())]] if session.loose else []
        )
        if not start:
            console.say(f"note    this agent finds it only at {visible(str(first))}")
        return start, [args.output]
    if not first.exists():
        # The session itself comes last: what goes with it must be there when it is found.
        for path, data in reversed(session.files.items()):
            make_parents(path)
            write_whole(path, data, 0o600)
    return session.start, [str(path) for path in session.files]


def _tell(talk: Talk, title: str, paths: list[str], known: bool, console: Console) -> None:
    counts = f"{plural(len(talk.turns) - 1, 'turn')}, {plural(len(talk.calls), 'call')}"
    if known:
        console.say(f"there   {visible(paths[0])}  handed over before; --again makes one more copy")
        return
    for path in paths:
        data = Path(path).stat().st_size
        console.say(f"wrote   {visible(path)}  {size(data)}")
    console.say(f"to      {title}: {counts}")
