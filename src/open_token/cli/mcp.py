"""`open-token mcp`: serve the sessions on this machine to agents as MCP tools."""

import argparse
import os

from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help
from open_token.errors import OutputError, UsageError
from open_token.mcp.protocol import serve
from open_token.mcp.tools import Toolbox
from open_token.storage.files import Folders, make_folder

HELP = Help(
    summary="Serve the sessions on this machine as MCP tools over stdin and stdout.",
    usage=("mcp [OPTIONS]",),
    notes=(
        "Tools: list_sessions, search, brief, show_conversation, export_conversation, validate, "
        "verify, get_events. Exports are written to files; the agent receives path, counts and "
        "hash. open-token itself uses no network, but what an agent receives goes to its model.",
    ),
    exit_codes=(
        ("0", "The client disconnected"),
        ("2", "Invalid usage"),
        ("3", "Cannot write"),
        ("130", "Interrupted"),
    ),
    examples=(
        ("claude mcp add -s user open-token -- open-token mcp", "Add it to Claude Code"),
        ("codex mcp add open-token -- open-token mcp", "Add it to Codex"),
        ("open-token mcp --folder ~/sessions", ""),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the permission to disable redaction."""
    output = parser.add_argument_group("Output")
    output.add_argument(
        "--folder",
        metavar="DIR",
        help="Folder for exports [default: `exports` in the user's data folder]",
    )
    redaction = parser.add_argument_group("Redaction")
    redaction.add_argument(
        "--allow-unmasked",
        action="store_true",
        help="Accept redact=none; otherwise secrets are always masked",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Answer requests until the client disconnects."""
    if args.folder == "":
        raise UsageError("--folder must not be empty", help="for example --folder ~/sessions")
    folder = Folders.of(console.env).data / "exports"
    if args.folder:
        folder = console.cwd / os.path.expanduser(args.folder)
    if not make_folder(folder):
        raise OutputError(
            "cannot write to this folder", where=str(folder), help="choose another with --folder"
        )
    tools = Toolbox(folder, console.env, console.home, console.cwd, may_unmask=args.allow_unmasked)
    serve(console.stdin, console.stdout, tools)
    return 0
