"""Finds and runs a command; the one place that prints errors."""

import argparse
import contextlib
import gc
import importlib
import os
import sys
from typing import NoReturn, Protocol, cast

from open_token.cli.shared.console import Console, discard_stdout, escape_controls
from open_token.cli.shared.help import Help, Section
from open_token.errors import OpenTokenError, OutputError, UsageError
from open_token.options import suggest_match

VERB_GROUPS: dict[str, dict[str, str]] = {
    "Find sessions": {
        "web": "Find, read and count sessions in the browser",
        "sessions": "List the sessions on this machine",
        "search": "Search the text of all sessions",
        "show": "Read a session in the terminal",
        "blame": "Show which prompt wrote each line of a file",
        "stats": "Count sessions, tokens and estimated cost",
        "formats": "List the supported formats and where their files are",
    },
    "Convert and share": {
        "export": "Convert a session to an Open-Token document or a web page",
        "redact": "Mask secrets and personal data in a session or a text",
        "handoff": "Continue a session in another agent",
        "archive": "Keep exports of all sessions up to date in a folder",
        "sign": "Sign an export with an SSH key",
        "restore": "Restore the source files from an export",
        "dataset": "Write many conversations as Parquet or JSON lines",
        "query": "Run SQL over a dataset",
    },
    "Check and compare": {
        "validate": "Check exports against the format specification",
        "verify": "Check the hashes and signatures of an export",
        "diff": "Show where two sessions diverge",
        "fidelity": "Measure how much of a source an export preserves",
    },
    "Run": {
        "replay": "Replay a recorded session offline",
        "serve": "Start the session server",
        "server": "Manage users, API keys and data of a server",
        "acp": "Serve agents and sessions to an editor",
        "mcp": "Serve sessions to agents as MCP tools",
    },
    "Set up": {
        "doctor": "Report what is found on this machine and what is wrong",
        "skill": "Install the export skill into an agent",
        "hook": "Let agents archive their sessions automatically",
        "statusline": "Print one line about today's usage",
        "index": "Update, check or remove the search index",
        "rules": "List, test and explain redaction rules",
        "schema": "Print the JSON Schema of the format",
        "completion": "Print a shell completion script",
    },
}
VERBS: dict[str, str] = {}
for _group in VERB_GROUPS.values():
    VERBS.update(_group)
HELP = Help(
    summary="Convert, check and share conversations with AI agents.",
    usage=("COMMAND [OPTIONS]",),
    sections=tuple(Section(title, tuple(group.items())) for title, group in VERB_GROUPS.items()),
    notes=(
        "Run `open-token COMMAND --help` for the options of a command. "
        "No command sends data over the network, except agents of the session server, "
        "which call their model providers.",
    ),
    exit_codes=(
        ("0", "Success"),
        ("1", "Negative result: invalid, changed, different or nothing found"),
        ("2", "Invalid usage"),
        ("3", "Input or output error"),
        ("4", "Signature invalid or not trusted"),
        ("130", "Interrupted"),
    ),
    examples=(
        ("open-token sessions", ""),
        ("open-token export", "Export the newest session of this folder"),
        ("open-token export last -o session.json", ""),
    ),
)
_GLOBAL_FLAGS = ("--json", "--quiet", "-q", "--color")
_BROKEN_PIPE_STATUS = 141
"""128 + SIGPIPE, which shells expect of a command whose reader went away."""


class Verb(Protocol):
    """The interface of a command's module."""

    HELP: Help

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command to its parser."""
        ...

    def run(self, args: argparse.Namespace, console: Console) -> int:
        """Run the command and return its exit code."""
        ...


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError."""

    def error(self, message: str) -> NoReturn:
        """Raise an error that suggests a similar option and points to the help."""
        argument = message.removeprefix("unrecognized arguments: ").split(" ")[0]
        option = argument.partition("=")[0]
        guess = ""
        if option.startswith("--"):
            # Without the dashes, which would make any two short options similar.
            names = [name[2:] for name in self._option_string_actions if name.startswith("--")]
            guess = suggest_match(option[2:], names, "--{}")
        message = message.replace("unrecognized arguments:", "unknown argument")
        raise UsageError(message, help=f"{guess}see `{self.prog} --help`")


class _FixedWidthFormatter(argparse.HelpFormatter):
    """Does not ask the terminal for its width, which argparse would do for every parser."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def run(words: list[str]) -> int:
    """Run one command; print its error, if any, and return the exit code."""
    console = Console()
    try:
        code = _dispatch(words, console)
        sys.stdout.flush()
        return code
    except OpenTokenError as problem:
        return _print_error(problem, words, console)
    except BrokenPipeError:
        discard_stdout()
        return _BROKEN_PIPE_STATUS
    except OSError as problem:
        with contextlib.suppress(OSError):
            _print_error(_to_output_error(problem), words, console)
        discard_stdout()
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; no file was written\n")
        return 130
    except Exception as problem:
        if console.env.get("OPEN_TOKEN_DEBUG"):
            _print_stack(problem)
        error = OpenTokenError(
            f"internal error ({type(problem).__name__})",
            help="set OPEN_TOKEN_DEBUG=1 to see where it occurred",
        )
        return _print_error(error, words, console)


def _print_stack(problem: Exception) -> None:
    """Print the stack without the exception's message, which may quote a conversation."""
    import traceback

    lines = traceback.format_tb(problem.__traceback__)
    sys.stderr.write("".join(["Traceback, most recent call last:\n", *lines]))


# What people who know other tools write for our commands.
_OTHER_NAMES = {
    "app": "web",
    "compare": "diff",
    "convert": "export",
    "cost": "stats",
    "costs": "stats",
    "find": "search",
    "grep": "search",
    "gui": "web",
    "history": "sessions",
    "list": "sessions",
    "log": "sessions",
    "logs": "sessions",
    "ls": "sessions",
    "open": "web",
    "read": "show",
    "resume": "handoff",
    "share": "web",
    "status": "doctor",
    "tokens": "stats",
    "ui": "web",
    "usage": "stats",
    "view": "show",
}


def _dispatch(words: list[str], console: Console) -> int:
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        console.print(render_main_help(console))
        return 0 if words else 2
    words = _move_verb_to_front(words)
    name = words[0]
    rest = words[1:]
    if name == "help":
        name = rest[0]
        rest = ["--help"]
    elif name not in VERBS and (name == "-" or os.path.exists(name)):
        # `open-token FILE` is short for `open-token export FILE`.
        name = "export"
        rest = words
    if name not in VERBS:
        meant = _OTHER_NAMES.get(name.lower())
        if meant is None:
            guess = suggest_match(name, VERBS, "`open-token {}`")
        else:
            guess = f"did you mean `open-token {meant}`? "
        raise UsageError(
            f"no such command or file: '{name[:60]}'", help=f"{guess}see `open-token --help`"
        )
    verb = load_verb(name)
    command: list[str] = []
    if getattr(verb, "TAKES_COMMAND", False):
        rest, command = _split_command(rest)
    # Before parsing: help is shown even if other arguments are missing or wrong.
    if "-h" in rest or "--help" in rest:
        console.print(render_verb_help(name, verb, console))
        return 0
    prepare_words = getattr(verb, "prepare_words", None)
    if prepare_words is not None:
        rest = prepare_words(rest)
    args = build_parser(name, verb).parse_intermixed_args(rest)
    args.command = command
    console.quiet = args.quiet
    console.color = args.color
    # What was imported so far is never garbage: keep the collector from looking at it.
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    return verb.run(args, console)


def load_verb(name: str) -> Verb:
    """Import the module of a command."""
    return cast(Verb, importlib.import_module(f"open_token.cli.{name}"))


def render_main_help(console: Console) -> str:
    """Render the help of the program."""
    parser = Parser("open-token", add_help=False)
    _add_global_options(parser)
    parser._action_groups[-1].add_argument(
        "-V", "--version", action="store_true", help="Print the version"
    )
    return _render(HELP, parser, console)


def render_verb_help(name: str, verb: Verb, console: Console) -> str:
    """Render the help of one command."""
    text = verb.HELP
    # Facts that are collected only for a help text.
    build_notes = getattr(verb, "build_notes", None)
    if build_notes is not None:
        text = text._replace(notes=(*text.notes, *build_notes()))
    return _render(text, build_parser(name, verb), console)


def _render(text: Help, parser: argparse.ArgumentParser, console: Console) -> str:
    # Loaded only for a help text.
    from open_token.cli.shared.help_text import choose_width, collect_options, render_help

    is_terminal = console.stdout_is_terminal
    return render_help(
        text,
        collect_options(parser),
        choose_width(),
        lambda heading: console.style(heading, "bold", is_terminal),
    )


def _move_verb_to_front(words: list[str]) -> list[str]:
    """Accept global options before the command as well."""
    count = 0
    while count < len(words):
        word = words[count]
        if word not in _GLOBAL_FLAGS and not word.startswith("--color="):
            return [word, *words[:count], *words[count + 1 :]]
        count += 2 if word == "--color" else 1
    return words


def _split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Separate the words before `--` from the command after it."""
    if "--" not in words:
        return words, []
    position = words.index("--")
    return words[:position], words[position + 1 :]


def build_parser(name: str, verb: Verb) -> Parser:
    """Build the parser of a command, including the global options."""
    # Intermixed parsing needs all options at the top level, hence no subparsers.
    # An explicit usage: argparse would format one for every parser, and load much for that.
    usage = f"open-token {name}"
    parser = Parser(
        usage, usage, formatter_class=_FixedWidthFormatter, add_help=False, allow_abbrev=False
    )
    verb.add_arguments(parser)
    _add_global_options(parser)
    return parser


def _add_global_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Global options")
    group.add_argument("--json", action="store_true", help="Print machine-readable JSON")
    group.add_argument(
        "-q", "--quiet", action="store_true", help="Print only warnings and errors to stderr"
    )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        metavar="WHEN",
        help="Use color: auto, always, never [default: auto]",
    )
    # Handled before parsing; listed for the help text.
    group.add_argument("-h", "--help", action="store_true", help="Print this help")


def _print_error(problem: OpenTokenError, words: list[str], console: Console) -> int:
    if "--json" in words:
        fields = {
            "code": problem.code,
            "message": problem.what,
            "where": problem.where,
            "help": problem.help,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        console.print_json({"error": known})
        return problem.exit_code
    escaped = OpenTokenError(
        escape_controls(problem.what),
        where=problem.where and escape_controls(problem.where),
        help=problem.help and escape_controls(problem.help),
    )
    console.error(str(escaped))
    return problem.exit_code


def _to_output_error(problem: OSError) -> OutputError:
    reason = problem.strerror or type(problem).__name__
    return OutputError(
        f"system error: {reason}", help="check that the disk is not full and the output is open"
    )
