"""Finds the verb, parses its words, runs it, and is the one place that prints errors."""

import argparse
import contextlib
import gc
import os
import sys
from importlib import import_module
from typing import NoReturn, Protocol, cast

from open_token.cli.console import Console, close_stdout, visible
from open_token.errors import OpenTokenError, OutputError, UsageError
from open_token.options import guess_of

VERBS: dict[str, str] = {
    "export": "turn a conversation into an Open-Token document",
    "sessions": "list the conversations on this machine",
    "archive": "keep every conversation of this machine exported",
    "hook": "let agents keep their conversations by themselves",
    "handoff": "let another agent go on with a conversation",
    "redact": "mask secrets in a conversation or a text, after a look",
    "rules": "list, try and explain the rules of redaction",
    "diff": "tell where two runs part",
    "fidelity": "tell how much of a conversation is in an export",
    "restore": "give back the source of an export",
    "replay": "run a past conversation again, offline",
    "validate": "check exports against the format",
    "verify": "check that an export was not changed, and who signed it",
    "sign": "put your signature under an export",
    "formats": "list what can be read",
    "schema": "print the JSON Schema of the format",
    "serve": "start the session server",
    "server": "manage the people, keys and data of a server",
    "skill": "install the export skill into an agent",
    "mcp": "serve conversations to agents as tools",
    "completion": "print a completion script for a shell",
}

HELP = """open-token: take agent conversations out, check them, hand them on.

  open-token sessions                    what is on this machine
  open-token export                      the newest conversation of this folder
  open-token export last -o talk.json    the newest of this machine, to a file

FIND   sessions  list conversations       formats   what can be read, and where
WRITE  export    a document, or a page    handoff   let another agent go on
       redact    mask secrets             archive   keep all of them, up to date
       sign      vouch with an SSH key    restore   the source, from its export
CHECK  validate  the rules of the format  verify    unchanged, and by whom?
       diff      where two runs part      fidelity  how much of it came along?
RUN    replay    a past run, offline      serve     live sessions of agents
       server    its people and its data
SETUP  skill     let agents export        hook      let agents archive
       rules     what redaction masks     schema    for other programs
       mcp       conversations as tools   completion  for your shell

Everywhere: --json  --quiet  --color auto|always|never  --help
Help: open-token VERB --help              Version: open-token --version
Exit: 0 done  1 the answer is no  2 usage  3 input or output  4 signature
      130 interrupted
Nothing goes over a network but what agents of a server ask their providers.
"""


_ANYWHERE = ("--json", "--quiet", "-q", "--color")


class Verb(Protocol):
    """What a verb's module defines."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say which words it takes."""
        ...

    def run(self, args: argparse.Namespace, console: Console) -> int:
        """Do it; gives the exit code."""
        ...


class _Narrow(argparse.HelpFormatter):
    """Asks no terminal for its width: every verb has a help text of its own."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        """A usage error that makes one guess and points to the verb's help."""
        word = message.removeprefix("unrecognized arguments: ").partition("=")[0].split(" ")[0]
        guess = guess_of(word, self._option_string_actions) if word.startswith("-") else ""
        raise UsageError(message, help=f"{guess}see `{self.prog} --help`")


def run(words: list[str]) -> int:
    """Run one command and turn every way to end into an exit code."""
    console = Console()
    try:
        code = _dispatch(words, console)
        sys.stdout.flush()
        return code
    except OpenTokenError as problem:
        return _report(problem, words, console)
    except BrokenPipeError:
        close_stdout()
        return 141  # as if SIGPIPE had ended it, which is what shells expect of a command that is cut short
    except OSError as problem:
        with contextlib.suppress(OSError):
            _report(_refused(problem), words, console)
        close_stdout()
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; no file was written\n")
        return 130
    except Exception as problem:
        if console.env.get("OPEN_TOKEN_DEBUG"):
            import traceback

            # Its message may quote what was being read, and a report of a fault is shared: where it
            # was must do.
            lines = traceback.format_tb(problem.__traceback__)
            sys.stderr.write("".join(["Traceback, most recent call last:\n", *lines]))
        what = f"something went wrong inside open-token ({type(problem).__name__})"
        return _report(
            OpenTokenError(what, help="set OPEN_TOKEN_DEBUG=1 to see where"), words, console
        )


def _dispatch(words: list[str], console: Console) -> int:
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        console.out(HELP.rstrip("\n"))
        return 0 if words else 2
    words = _verb_first(words)
    name, rest = words[0], words[1:]
    if name == "help":
        name, rest = rest[0], ["--help"]
    elif name not in VERBS and (name == "-" or os.path.exists(name)):
        name, rest = "export", words
    if name not in VERBS:
        raise _unknown_verb(name)
    verb = cast(Verb, import_module(f"open_token.cli.{name}"))
    rest, command = _before_command(rest) if getattr(verb, "TAKES_COMMAND", False) else (rest, [])
    if any(word in ("-h", "--help") for word in rest):
        console.out(verb.HELP.rstrip("\n"))
        return 0
    args = parser_for(name, verb).parse_intermixed_args(rest)
    args.command = command
    console.quiet, console.colour = args.quiet, args.color
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    return verb.run(args, console)


def _verb_first(words: list[str]) -> list[str]:
    """The options that every verb has may stand before it, too."""
    count = 0
    while count < len(words) and (words[count] in _ANYWHERE or words[count].startswith("--color=")):
        count += 2 if words[count] == "--color" else 1
    return (
        words[count : count + 1] + words[:count] + words[count + 1 :]
        if count < len(words)
        else words
    )


def _before_command(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, and the command after it, whose words are its own."""
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def parser_for(name: str, verb: Verb) -> Parser:
    """The parser of one verb, with the options that every verb has."""
    # A usage and a width of their own: argparse would find out both at every start, and load a lot
    # for that.
    usage = f"open-token {name}"
    parser = Parser(usage, usage, formatter_class=_Narrow, add_help=False, allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    verb.add_arguments(parser)
    return parser


def _unknown_verb(name: str) -> UsageError:
    guess = guess_of(name, VERBS, "`open-token {}`")
    return UsageError(
        f"there is no command or file '{name[:60]}'", help=f"{guess}see `open-token --help`"
    )


def _report(problem: OpenTokenError, words: list[str], console: Console) -> int:
    if "--json" in words:
        parts = {
            "code": problem.code,
            "message": problem.what,
            "where": problem.where,
            "help": problem.help,
        }
        console.json({"error": {name: value for name, value in parts.items() if value is not None}})
    else:
        shown = {
            "where": problem.where and visible(problem.where),
            "help": problem.help and visible(problem.help),
        }
        console.error(str(OpenTokenError(visible(problem.what), **shown)))
    return problem.exit_code


def _refused(problem: OSError) -> OutputError:
    """What the system did not let us do, in its own words."""
    reason = problem.strerror or type(problem).__name__
    return OutputError(f"cannot go on: {reason}", help="is the disk full, or the output closed?")
