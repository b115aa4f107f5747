"""`open-token handoff`: write a session for another agent, which continues it."""

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

import msgspec

from open_token.api import build_context
from open_token.cli.shared.console import Console, escape_controls, format_size, pluralize
from open_token.cli.shared.document import read_document
from open_token.cli.shared.export_options import (
    add_export_options,
    describe_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.output import refuse_folder, refuse_to_overwrite_source
from open_token.cli.shared.receipt import print_receipt
from open_token.cli.shared.source_selection import (
    SOURCE_HELP,
    add_source_arguments,
    check_reader_name,
    choose_conversation,
    print_source,
    select_source,
)
from open_token.errors import InputError, UsageError
from open_token.handoff import (
    HandoffConversation,
    HandoffDestination,
    HandoffSession,
    build_conversation,
    list_target_names,
    load_handoff_module,
)
from open_token.model.document import Export
from open_token.options import split_option_words
from open_token.settings import load_settings
from open_token.storage.files import make_parents, write_atomic

HELP = Help(
    summary="Continue a session in another agent: write it as a session of that agent.",
    usage=("handoff [SOURCE] --to AGENT [OPTIONS] [KEY=VALUE ...]",),
    sections=(
        Section(
            "Arguments",
            (("SOURCE", f"{SOURCE_HELP} [default: newest session of this folder]"),),
        ),
    ),
    notes=(
        "Messages, tool calls and results are transferred. Reasoning, system prompts, images "
        "and the messages of subagents are not; they are counted. Secrets are masked unless "
        "redact=none.",
        "No file of the agent is changed: a new one is added. The command that "
        "continues the session is printed to stdout. The last message of the session tells "
        "the agent that it is a copy.",
        describe_options(("redact", "strategy", "branches", "subagents", "max_bytes", "drop")),
    ),
    exit_codes=(("0", "Written"), ("2", "Invalid usage"), ("3", "Cannot read or write")),
    examples=(
        ("open-token handoff --to codex", "Hand over the newest session of this folder"),
        ("open-token handoff session.json --to claude-code --cwd ~/project", ""),
        ("open-token handoff last --to pi -o session.jsonl", "Write to a file only"),
    ),
)
MAX_DOCUMENT_BYTES = 256 << 20
"""The document is held in memory, and no model takes a hundredth of this."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source, agent and options; they may come in any order."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    handoff = parser.add_argument_group("Target")
    handoff.add_argument("--to", metavar="AGENT", help=f"Agent: {', '.join(list_target_names())}")
    handoff.add_argument(
        "--cwd", metavar="DIR", help="Folder to continue in [default: working directory]"
    )
    handoff.add_argument(
        "--whole", action="store_true", help="Start at the beginning, not at the last compaction"
    )
    handoff.add_argument(
        "--again", action="store_true", help="Create another copy if there is one already"
    )
    handoff.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="Write the session to FILE only, not into the agent's folders",
    )
    add_source_arguments(parser)
    add_export_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Read the session, write it for the agent and print how to continue."""
    agent = load_handoff_module(_check_agent(args))
    cwd = _resolve_cwd(args, console)
    _check_output(args)
    conversation = build_conversation(_read_session(args, console), whole=args.whole)
    if conversation.omitted:
        counts = ", ".join(f"{what}: {count:,}" for what, count in conversation.omitted.items())
        console.info(f"omitted {counts}")
    if not conversation.turns:
        raise InputError(
            "the session has no messages",
            help="check that it is the right one; nothing was written",
        )
    if conversation.is_copy and not _is_named(args):
        raise InputError(
            "the newest session is a copy made by handoff that was not continued yet",
            help="name a session; `open-token sessions` lists them. Nothing was written",
        )
    scene = HandoffDestination(cwd, console.home, console.env)
    session = agent.build_session(conversation, scene)
    # The id of the new session is derived from the source, so a second handoff finds the first.
    exists = _session_exists(session)
    while args.again and not args.output and _session_exists(session):
        scene = msgspec.structs.replace(scene, copy=scene.copy + 1)
        session = agent.build_session(conversation, scene)
    start, paths = _write_session(args, console, session)
    is_unchanged = exists and not args.again and not args.output
    _print_result(conversation, agent.TITLE, paths, is_unchanged, console)
    commands = [shlex.join(command) for command in start]
    if commands and Path(cwd) != console.cwd.resolve() and not args.output:
        commands = [f"cd {shlex.quote(cwd)}", *commands]
    if args.json:
        result: dict[str, Any] = {
            "schema": "open-token/handoff/1",
            "to": args.to,
            "id": session.id,
            "files": paths,
            "written": not is_unchanged,
            "start": commands,
            "turns": len(conversation.turns) - 1,
            "calls": len(conversation.calls),
            "behind": dict(conversation.omitted),
        }
        console.print_json(result)
    elif commands:
        console.print(" && ".join(commands))
    return 0


def _check_agent(args: argparse.Namespace) -> str:
    if not args.to:
        raise UsageError(
            "handoff needs --to AGENT", help=f"available agents: {', '.join(list_target_names())}"
        )
    check_reader_name(args.reader)
    return str(args.to)


def _is_named(args: argparse.Namespace) -> bool:
    """Whether the user chose the session, rather than taking the newest."""
    _, words = split_option_words(args.words)
    return args.pick or args.current or bool(words and words[0] != "last")


def _resolve_cwd(args: argparse.Namespace, console: Console) -> str:
    """Return the real path of the project, by which agents find their sessions."""
    folder = console.cwd / os.path.expanduser(args.cwd or ".")
    if not folder.is_dir():
        raise UsageError("--cwd must be an existing folder", where=args.cwd, help="check the path")
    path = str(folder.resolve())
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the path of the folder is not valid UTF-8",
            help="rename the folder; agents store its path as text",
        ) from None
    return path


def _check_output(args: argparse.Namespace) -> None:
    if args.output == "-":
        raise UsageError(
            "-o needs a file", help="stdout is for the command that continues the session"
        )
    refuse_folder(args.output)


def _read_session(args: argparse.Namespace, console: Console) -> Export:
    words, others = split_option_words(args.words)
    settings = load_settings(console.env, console.cwd)
    options = resolve_export_options(args, words, settings.defaults)
    warn_about_options(options, settings.policy, console)
    selected = select_source(others, console, current=args.current, picking=args.pick)
    print_source(selected, console)
    if args.output:
        refuse_to_overwrite_source(selected.source, args.output)
    reader = choose_conversation(args, selected, console)
    plain = options.changed(mode="json", pretty=False, include="visible-only", native="none")
    too_large = InputError(
        "the session is too large to hand over",
        help="shorten it to what the model can take, for example max_bytes=1000000 drop=oldest",
        code="handoff.long",
    )
    document, receipt = read_document(
        selected.source,
        reader,
        build_context(plain, settings, console.env),
        MAX_DOCUMENT_BYTES,
        too_large,
    )
    print_receipt(receipt, selected, None, 0, console)
    return document


def _session_exists(session: HandoffSession) -> bool:
    return next(iter(session.files)).exists()


def _write_session(
    args: argparse.Namespace, console: Console, session: HandoffSession
) -> tuple[list[list[str]], list[str]]:
    """Write missing files; return the commands that continue the session, and the paths."""
    main_file = next(iter(session.files))
    if args.output:
        write_atomic(Path(args.output), session.files[main_file], 0o600)
        if session.file_command:
            return [[*session.file_command, str((console.cwd / args.output).absolute())]], [
                args.output
            ]
        location = escape_controls(str(main_file))
        console.info(f"note    this agent finds the session only at {location}")
        return [], [args.output]
    if not main_file.exists():
        # The main file comes last: once an agent finds it, the others must be there.
        for path, data in reversed(session.files.items()):
            make_parents(path)
            write_atomic(path, data, 0o600)
    return session.commands, [str(path) for path in session.files]


def _print_result(
    conversation: HandoffConversation,
    title: str,
    paths: list[str],
    is_unchanged: bool,
    console: Console,
) -> None:
    if is_unchanged:
        path = escape_controls(paths[0])
        console.info(f"exists  {path}  handed over before; --again creates another copy")
        return
    for path in paths:
        size = format_size(Path(path).stat().st_size)
        console.info(f"wrote   {escape_controls(path)}  {size}")
    turns = pluralize(len(conversation.turns) - 1, "turn")
    calls = pluralize(len(conversation.calls), "call")
    counts = f"{turns}, {calls}"
    console.info(f"to      {title}: {counts}")
