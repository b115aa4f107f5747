"""`open-token replay`: a past run again: as a provider for an agent, as a check for a CI, or to
look at."""

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import cast

from open_token.cli.console import Console
from open_token.errors import UsageError
from open_token.options import guess_of

HELP = """Run a past conversation again, offline: its answers come from the record, not from a model.

usage: open-token replay serve|check|view SOURCE [options] [-- COMMAND ...]

  open-token replay serve talk.jsonl --for codex
  open-token replay check talk.json --junit out.xml -- claude -p "fix the test"
  open-token replay view talk.json --speed 8

serve   a provider on 127.0.0.1 that speaks as Anthropic, OpenAI and Gemini do
check   the same, and your COMMAND with the variables that lead it there
view    play it in the terminal: space, n step, N prompt, e error, / find, q quit
  --strict, --any-order  every word must be the recorded one; steps may come in any order
  --results same|any     any: what tools give back may differ from the record
  --on-miss fail|stub    how a request is answered that is not in the record
  --port N, --once, --for AGENT   serve: where; stop after the last step; whose variables
  --junit FILE, --within SECONDS  check: a report for a CI; the longest it may take (600)
  --speed X, --start N, --end N   view: how fast (1); its first and last event
  --pick, --current, --conversation, --from READER: as for export
{url} in COMMAND is the address. SOURCE is read unmasked by serve and check and stays on
this machine; nothing that it tells of is run by us: agents run their own tools.
Exit: 0 the same  1 it parted, or COMMAND failed  2 usage  3 cannot be read  130 interrupted
"""

TAKES_COMMAND = True
_PARTS = {"serve": "replaying", "check": "replaying", "view": "viewing"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, SOURCE, and how."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--results", choices=("same", "any"), default="same")
    parser.add_argument("--on-miss", choices=("fail", "stub"), default="fail")
    parser.add_argument("--port", type=int, default=0, metavar="N")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--for", dest="agent", metavar="AGENT")
    parser.add_argument("--junit", metavar="FILE")
    parser.add_argument("--within", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--speed", type=float, default=1.0, metavar="X")
    parser.add_argument("--start", type=int, metavar="N")
    parser.add_argument("--end", type=int, metavar="N")
    parser.add_argument("--from", dest="reader", metavar="READER")
    parser.add_argument("--pick", action="store_true")
    parser.add_argument("--current", action="store_true")
    parser.add_argument("--conversation", metavar="ID")


def run(args: argparse.Namespace, console: Console) -> int:
    """Do what the first word says."""
    name = args.words[0] if args.words else ""
    if name not in _PARTS:
        guess = guess_of(name, _PARTS, "`open-token replay {}`") if name else ""
        raise UsageError("serve, check or view?", help=f"{guess}see `open-token replay --help`")
    if args.command and name != "check":
        raise UsageError(
            f"{name} takes no command", help="`open-token replay check SOURCE -- COMMAND` runs one"
        )
    part = import_module(f"open_token.cli.{_PARTS[name]}")
    return cast(Callable[[argparse.Namespace, list[str], Console], int], getattr(part, name))(
        args, args.words[1:], console
    )
