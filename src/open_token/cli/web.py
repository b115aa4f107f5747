"""`open-token web`: the web application on the sessions of this machine."""

import argparse
import webbrowser
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from open_token.cli.hook import find_own_command
from open_token.cli.shared.console import Console, escape_controls
from open_token.cli.shared.help import Help
from open_token.cli.shared.progress import COMPILING
from open_token.cli.shared.signals import interrupt_on_signals
from open_token.errors import OpenTokenError, UsageError
from open_token.redaction import hyperscan_prefilter

if TYPE_CHECKING:
    from open_token.web.serving import SessionServer

DEFAULT_PORT = 8021
HELP = Help(
    summary="Open the web application: find, read and count your sessions.",
    usage=("web [OPTIONS]",),
    notes=(
        "The application runs on this machine only (127.0.0.1) and loads nothing from the "
        "network. It opens in your browser by a link that works once; other users of the machine "
        "cannot see it. It ends with Ctrl-C.",
    ),
    exit_codes=(("0", "Stopped"), ("2", "Invalid usage"), ("3", "Cannot start")),
    examples=(
        ("open-token web", "Open it in the browser"),
        ("open-token web --no-open", "Print the link only"),
        ("open-token web --port 0", "Use any free port"),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the port, and whether a browser is opened."""
    group = parser.add_argument_group("Server")
    group.add_argument(
        "--port",
        metavar="PORT",
        default=str(DEFAULT_PORT),
        help=f"Port to listen on; 0: any free port [default: {DEFAULT_PORT}]",
    )
    group.add_argument(
        "--no-open", action="store_true", help="Print the link, but do not open a browser"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until a signal arrives."""
    if not args.port.isdecimal() or int(args.port) > 65535:
        raise UsageError("--port must be a number up to 65535", help="for example --port 8021")
    from open_token.web.app import build_app
    from open_token.web.serving import serve
    from open_token.web.workspace import Workspace

    workspace = Workspace(console.env, console.home, console.cwd, find_own_command())

    def on_start(link: str) -> None:
        if args.json:
            # One line, for the program that started this one and reads on.
            message = {"schema": "open-token/web/1", "link": link}
            console.print(msgspec.json.encode(message).decode())
        else:
            console.print(link)
        console.stdout.flush()
        console.info("The link works once. Stop with Ctrl-C.")
        if not args.no_open:
            webbrowser.open(link)

    def on_problem(problem: OpenTokenError) -> None:
        console.info(f"without live sessions: {escape_controls(problem.what)}")

    if console.stderr_is_terminal:
        hyperscan_prefilter.on_compile = partial(_announce_compiling, console)
    session_server = _find_session_server(console)
    with interrupt_on_signals():
        serve(build_app(workspace), int(args.port), on_start, session_server, on_problem)
    console.info("stopped")
    return 0


def _announce_compiling(console: Console) -> None:
    """Say it once, although several databases may follow."""
    hyperscan_prefilter.on_compile = None
    console.info(COMPILING)


def _find_session_server(console: Console) -> "SessionServer | None":
    """Return the session server, if its packages are installed and no other process runs it."""
    from open_token.server.readiness import find_missing_packages

    if find_missing_packages():
        return None
    from open_token.server.config_loader import load_config
    from open_token.server.mounting import run_mounted

    return run_mounted(load_config({}, console.env), console.env)
