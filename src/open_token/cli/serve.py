"""`open-token serve`: the session server on this machine, until it is stopped."""

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec

from open_token.cli.console import Console, visible
from open_token.cli.stopping import stopped_like_ctrl_c
from open_token.errors import OpenTokenError
from open_token.server.config import ServerConfig
from open_token.server.loading import SETTINGS, flag_of, is_switch, load_config
from open_token.server.readiness import Finding, findings, missing_packages

HELP = """Start the session server: live sessions of agents, over REST, Socket.IO and event streams.

usage: open-token serve [--data DIR] [--host HOST] [--port PORT] [--model MODEL] [--check] ...

  open-token serve                          on http://127.0.0.1:8020, data in this user's folder
  open-token serve --data ./data --port 0   any free port
  open-token serve --check                  what is configured, and what is missing

  --data DIR           where sessions are kept; made when it is not there
  --host, --port       where to listen; 127.0.0.1 and 8020
  --model MODEL        the default model, as openai:NAME; without a key `demo`, which is offline
  --base-url URL       an OpenAI-compatible service: Ollama, vLLM, llama.cpp
  --database, --redis  addresses, for several nodes; --role all|gateway|worker|scheduler
  --cors ORIGIN,...    pages of other origins that may call; none by default
  --proxies ADDR,...   proxies in front of it, on other machines
  --allow-unsandboxed  let Bash run without bubblewrap
  --public-url URL     how others reach this server, for the links of shares
  --log text|json|off  requests on stderr, without content
Every other setting is a flag, too: --max-turns 20, --sharing false, --limits-runs 10, ...
A flag wins over OPEN_TOKEN_SERVER_<NAME>, which wins over [server] in config.toml.
The first start makes the owner and prints one API key, which is shown once. Ctrl-C stops.
Exit: 0 stopped, or --check found nothing missing  1 --check did  2 usage  3 cannot start
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A flag for every setting; one that is on or off is on when nothing follows."""
    for name in SETTINGS:
        if is_switch(name):
            parser.add_argument(flag_of(name), nargs="?", const="true")
        else:
            parser.add_argument(flag_of(name))
    parser.add_argument("--check", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until a signal comes."""
    config = load_config(vars(args), console.env)
    if args.check:
        return _check(config, args, console)
    if lacking := missing_packages():
        raise OpenTokenError(
            f"the server needs packages that are not installed: {', '.join(lacking)}",
            help="pip install 'open-token[server]', or in a checkout: scripts/setup server",
            code="server.packages",
        )
    with _telling(config.log), stopped_like_ctrl_c():
        try:
            listen: Any = import_module("open_token.server.listen")
            listen.serve(
                config,
                console.env,
                lambda address, key: _told(address, key, args, console),
                lambda: _stopping(console),
            )
        except KeyboardInterrupt:
            console.say("")
    console.say("stopped")
    return 0


def _stopping(console: Console) -> None:
    """Agents may take some seconds to come to a safe point; on a screen, the line of the ^C is left
    first."""
    line = "\n" if console.err_is_terminal else ""
    console.say(
        f"{line}stopping: agents are brought to a safe point; a second Ctrl-C ends it at once"
    )


def _told(address: str, key: str | None, args: argparse.Namespace, console: Console) -> None:
    """The server listens: its address, and on the first start the owner's key."""
    if args.json:
        facts = {"schema": "open-token/serve/1", "address": address, "key": key}
        console.out(msgspec.json.encode(facts).decode())
    else:
        console.out(f"address  {address}")
        if key:
            console.out(f"key      {key}")
    console.payload.flush()
    if key:
        console.say(
            "This key is the owner's and is shown once; keep it. More: open-token server key add"
        )
    console.say("Stop with Ctrl-C.")


def _check(config: ServerConfig, args: argparse.Namespace, console: Console) -> int:
    found = list(findings(config, console.env))
    cannot = any(item.level == "missing" for item in found)
    if args.json:
        rows = [{"what": item.what, "level": item.level, "words": item.words} for item in found]
        console.json({"schema": "open-token/serve-check/1", "ready": not cannot, "findings": rows})
        return int(cannot)
    for item in found:
        console.out(_line(item, console))
    console.say("something is missing; the server would not start" if cannot else "ready to start")
    return int(cannot)


def _line(item: Finding, console: Console) -> str:
    colour = {"ok": "green", "note": "yellow", "missing": "red"}[item.level]
    word = console.paint(f"{item.level:8}", colour, console.out_is_terminal)
    return f"{word} {item.what:14} {visible(item.words)}"


class _Lines(logging.Formatter):
    """A line for each record, and of a fault the way through the code: the server's words, never
    those of a library."""

    def __init__(self, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        moment = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z"
        )
        is_ours = record.name.startswith("open_token")
        event = record.getMessage() if is_ours else f"{record.name} {record.levelname.lower()}"
        if self._is_json:
            line = {"time": moment, "level": record.levelname.lower(), "event": event, **fields}
            return msgspec.json.encode(line).decode()
        if event == "request":
            shown = (
                f"{fields['method']} {fields['route'] or '-'} {fields['status']} {fields['ms']} ms"
            )
        else:
            shown = " ".join([event, *(f"{name}={value}" for name, value in fields.items())])
        return f"{moment[11:19]} {shown}"


@contextlib.contextmanager
def _telling(kind: str) -> Iterator[None]:
    """Let records out on stderr: the server's own, and of libraries that they warn, which could
    quote a client."""
    handler: logging.Handler = (
        logging.StreamHandler(sys.stderr) if kind != "off" else logging.NullHandler()
    )
    handler.setFormatter(_Lines(kind == "json"))
    everybody, ours = logging.getLogger(), logging.getLogger("open_token")
    before = ours.level
    everybody.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        everybody.removeHandler(handler)
        ours.setLevel(before)
