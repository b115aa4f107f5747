"""`open-token replay`: replay a session to an agent, in a test, or in the terminal."""

import argparse

from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.source_selection import SOURCE_HELP, add_source_arguments
from open_token.errors import UsageError
from open_token.options import suggest_match

HELP = Help(
    summary="Replay a recorded session offline, with answers from the recording.",
    usage=(
        "replay serve [SOURCE] [OPTIONS]",
        "replay check [SOURCE] [OPTIONS] -- COMMAND...",
        "replay view [SOURCE] [OPTIONS]",
    ),
    sections=(
        Section(
            "Commands",
            (
                ("serve", "Serve the Anthropic, OpenAI and Gemini APIs on 127.0.0.1"),
                ("check", "Run COMMAND against that server and compare its requests"),
                ("view", "Play the session in the terminal"),
            ),
        ),
        Section(
            "Arguments",
            (
                ("SOURCE", f"{SOURCE_HELP} [default: newest session of this folder]"),
                ("COMMAND", "The agent to run; {url} in it is replaced by the server's address"),
            ),
        ),
    ),
    notes=(
        "`serve` and `check` use the session unmasked; it stays on this machine. open-token "
        "runs no tool of the recording: the agent runs its own tools.",
        "Keys of `view`: space pause, n step, p step back, N next prompt, P previous prompt, "
        "e next error, / search, q quit.",
    ),
    exit_codes=(
        ("0", "Same as recorded"),
        ("1", "Diverged, or COMMAND failed"),
        ("2", "Invalid usage"),
        ("3", "Cannot read"),
        ("130", "Interrupted"),
    ),
    examples=(
        ("open-token replay serve session.jsonl --for codex", ""),
        ('open-token replay check session.json -- claude -p "fix the test"', ""),
        ("open-token replay view session.json --speed 8", ""),
    ),
)
TAKES_COMMAND = True
_COMMANDS = ("serve", "check", "view")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand, the source and the options."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    matching = parser.add_argument_group("Matching (serve, check)")
    matching.add_argument(
        "--strict", action="store_true", help="Requests must match the recording exactly"
    )
    matching.add_argument("--any-order", action="store_true", help="Accept steps in any order")
    matching.add_argument(
        "--results",
        choices=("same", "any"),
        default="same",
        metavar="WHICH",
        help="any: accept other tool results than the recorded ones [default: same]",
    )
    matching.add_argument(
        "--on-miss",
        choices=("fail", "stub"),
        default="fail",
        metavar="HOW",
        help="How to answer a request that was not recorded: fail, stub [default: fail]",
    )
    server = parser.add_argument_group("Server (serve, check)")
    server.add_argument(
        "--port", type=int, default=0, metavar="N", help="Port [default: any free port]"
    )
    server.add_argument(
        "--for", dest="agent", metavar="AGENT", help="Print the variables of this agent only"
    )
    server.add_argument("--once", action="store_true", help="serve: stop after the last step")
    check = parser.add_argument_group("Check")
    check.add_argument("--junit", metavar="FILE", help="Write a JUnit report")
    check.add_argument(
        "--within",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="Time limit of COMMAND [default: 600]",
    )
    view = parser.add_argument_group("View")
    view.add_argument(
        "--speed", type=float, default=1.0, metavar="X", help="Playback speed [default: 1]"
    )
    view.add_argument("--start", type=int, metavar="N", help="First event")
    view.add_argument("--end", type=int, metavar="N", help="Last event")
    add_source_arguments(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run a subcommand."""
    name = args.words[0] if args.words else ""
    words = args.words[1:]
    if name not in _COMMANDS:
        guess = ""
        if name:
            guess = suggest_match(name, _COMMANDS, "`open-token replay {}`")
        raise UsageError(
            f"replay needs a command: {', '.join(_COMMANDS)}",
            help=f"{guess}see `open-token replay --help`",
        )
    if args.command and name != "check":
        raise UsageError(
            f"`replay {name}` takes no COMMAND",
            help="run one with `open-token replay check SOURCE -- COMMAND`",
        )
    if name == "view":
        from open_token.cli.replay.player import view

        return view(args, words, console)
    from open_token.cli.replay import server

    if name == "serve":
        return server.serve(args, words, console)
    return server.check(args, words, console)
