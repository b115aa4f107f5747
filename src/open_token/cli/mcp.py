"""`open-token mcp`: the conversations of this machine as tools, for agents that speak MCP."""

import argparse
import os

from open_token.cli.console import Console
from open_token.errors import OutputError, UsageError
from open_token.mcp_server.tools import Toolbox
from open_token.mcp_server.wire import serve
from open_token.storage.files import Folders, make_folder

HELP = """Serve the conversations of this machine as tools, over MCP on standard input and output.

usage: open-token mcp [--folder DIR] [--allow-unmasked]

  open-token mcp --folder ~/talks                     what an agent is to start, as by
  claude mcp add -s user open-token -- open-token mcp
  codex mcp add open-token -- open-token mcp

  --folder DIR       where exports go, and from where they are read; without it the folder
                     `exports` in this user's data folder
  --allow-unmasked   let redact=none through; without it secrets are masked in all that is told

Tools: list_sessions, export_conversation, validate, verify, get_events.
An export is written to a file; what is told of it is its path, counts and digest.
Nothing goes over a network by us; what an agent is told goes to its model.
Exit: 0 the client went away  2 usage  3 cannot be written  130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, and how much."""
    parser.add_argument("--folder", metavar="DIR")
    parser.add_argument("--allow-unmasked", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Answer until the client goes away."""
    if args.folder == "":
        raise UsageError("--folder takes a folder", help="as in --folder ~/talks")
    own = Folders.of(console.env).data / "exports"
    folder = console.cwd / os.path.expanduser(args.folder) if args.folder else own
    if not make_folder(folder):
        raise OutputError(
            "cannot write into this folder", where=str(folder), help="choose another with --folder"
        )
    tools = Toolbox(folder, console.env, console.home, console.cwd, may_unmask=args.allow_unmasked)
    serve(console.stdin, console.payload, tools)
    return 0
