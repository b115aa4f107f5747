"""`open-token serve`: run the session server until it is stopped."""

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.cli.hook import find_own_command
from open_token.cli.shared.console import Console, escape_controls
from open_token.cli.shared.help import Help
from open_token.cli.shared.signals import interrupt_on_signals
from open_token.errors import OpenTokenError
from open_token.server.config import ServerConfig
from open_token.server.config_loader import SETTINGS, flag_name, is_switch, load_config
from open_token.server.readiness import Finding, check_readiness, find_missing_packages

HELP = Help(
    summary="Start the session server (REST, Socket.IO and server-sent events).",
    usage=("serve [OPTIONS]",),
    notes=(
        "Every setting of the server is a flag, for example --max-turns 20, --sharing false or "
        "--limits-runs 10; docs/reference/settings.md lists them all. A flag takes precedence "
        "over the variable OPEN_TOKEN_SERVER_<NAME>, and that over [server] in config.toml.",
        "The first start creates the owner and prints an API key, which is shown only once.",
    ),
    exit_codes=(
        ("0", "Stopped; --check: ready"),
        ("1", "--check: not ready"),
        ("2", "Invalid usage"),
        ("3", "Cannot start"),
    ),
    examples=(
        ("open-token serve", "Listen on http://127.0.0.1:8020"),
        ("open-token serve --data ./data --port 0", "Use any free port"),
        ("open-token serve --check", ""),
    ),
)
_LISTED_SETTINGS: dict[str, dict[str, tuple[str, str]]] = {
    "Network": {
        "host": ("HOST", "Address to listen on [default: 127.0.0.1]"),
        "port": ("PORT", "Port to listen on; 0: any free port [default: 8020]"),
        "public_url": ("URL", "Address of this server in links of shared sessions"),
        "cors": ("ORIGIN,...", "Origins of web pages that may call the API [default: none]"),
        "proxies": ("ADDR,...", "Reverse proxies on other machines"),
    },
    "Storage": {
        "data": ("DIR", "Data folder [default: `server` in the user's data folder]"),
        "database": ("URL", "PostgreSQL database, for several nodes"),
        "redis": ("URL", "Redis, for several nodes"),
        "role": ("ROLE", "all, gateway, worker or scheduler [default: all]"),
    },
    "Models and tools": {
        "model": ("MODEL", "Default model, such as openai:NAME; without API keys: demo"),
        "base_url": ("URL", "OpenAI-compatible service: Ollama, vLLM, llama.cpp"),
        "allow_unsandboxed": ("", "Allow the Bash tool without bubblewrap"),
    },
    "Display": {
        "log": ("FORMAT", "Request log on stderr: text, json, off [default: text]"),
    },
}
_LEVEL_COLORS = {"ok": "green", "note": "yellow", "missing": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting; a switch without a value is on."""
    unlisted = set(SETTINGS)
    for title, settings in _LISTED_SETTINGS.items():
        group = parser.add_argument_group(title)
        for name, (metavar, text) in settings.items():
            _add_setting(group, name, metavar, text)
            unlisted.discard(name)
        if title == "Display":
            group.add_argument(
                "--check", action="store_true", help="Report what is configured, then exit"
            )
    for name in SETTINGS:
        if name in unlisted:
            _add_setting(parser, name, "VALUE", argparse.SUPPRESS)


def _add_setting(parser: Any, name: str, metavar: str, text: str) -> None:
    if is_switch(name):
        parser.add_argument(flag_name(name), nargs="?", const="true", metavar=metavar, help=text)
    else:
        parser.add_argument(flag_name(name), metavar=metavar, help=text)


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until a signal arrives."""
    config = load_config(vars(args), console.env)
    if args.check:
        return _check_config(config, args, console)
    check_packages()
    with log_to_stderr(config.log), interrupt_on_signals():
        try:
            _listen(config, args, console)
        except KeyboardInterrupt:
            console.info("")
    console.info("stopped")
    return 0


def check_packages() -> None:
    """Raise an error that names the packages of the server that are not installed."""
    missing = find_missing_packages()
    if missing:
        raise OpenTokenError(
            f"packages of the server are not installed: {', '.join(missing)}",
            help="pip install 'open-token-cli[server]', or in a checkout: scripts/setup server",
            code="server.packages",
        )


def _listen(config: ServerConfig, args: argparse.Namespace, console: Console) -> None:
    from open_token.server import listener
    from open_token.web.app import build_app
    from open_token.web.workspace import Workspace

    def on_start(address: str, key: str | None) -> None:
        _print_address(address, key, args, console)

    def on_stop() -> None:
        # On a screen, leave the line on which Ctrl-C was echoed.
        prefix = "\n" if console.stderr_is_terminal else ""
        console.info(f"{prefix}stopping: waiting for agents; press Ctrl-C again to stop at once")

    def on_link(link: str) -> None:
        _print_link(link, args, console)

    workspace = Workspace(console.env, console.home, console.cwd, find_own_command())
    application = build_app(workspace)
    listener.serve(config, console.env, on_start, on_stop, application, on_link)


def _print_link(link: str, args: argparse.Namespace, console: Console) -> None:
    """Print a link that opens the web application, once; the next one follows its use."""
    if args.json:
        console.print(msgspec.json.encode({"schema": "open-token/web/1", "link": link}).decode())
    else:
        console.print(f"browser  {link}")
    console.stdout.flush()


def _print_address(
    address: str, key: str | None, args: argparse.Namespace, console: Console
) -> None:
    """Print the address, and on the first start the owner's key."""
    if args.json:
        message = {"schema": "open-token/serve/1", "address": address, "key": key}
        console.print(msgspec.json.encode(message).decode())
    else:
        console.print(f"address  {address}")
        if key:
            console.print(f"key      {key}")
    console.stdout.flush()
    if key:
        console.info(
            "This is the owner's key. It is shown only once; store it. "
            "Create more with `open-token server key add`."
        )
    console.info("Stop with Ctrl-C.")


def _check_config(config: ServerConfig, args: argparse.Namespace, console: Console) -> int:
    found = list(check_readiness(config, console.env))
    is_ready = all(item.level != "missing" for item in found)
    if args.json:
        rows = [{"what": item.what, "level": item.level, "words": item.text} for item in found]
        console.print_json(
            {"schema": "open-token/serve-check/1", "ready": is_ready, "findings": rows}
        )
        return 0 if is_ready else 1
    for item in found:
        console.print(_format_finding(item, console))
    if is_ready:
        console.info("ready to start")
        return 0
    console.info("the server cannot start: something is missing")
    return 1


def _format_finding(item: Finding, console: Console) -> str:
    level = f"{item.level:8}"
    styled = console.style(level, _LEVEL_COLORS[item.level], console.stdout_is_terminal)
    return f"{styled} {item.what:14} {escape_controls(item.text)}"


class _LineFormatter(logging.Formatter):
    """Formats a record as one line of text or JSON.

    Messages of libraries are left out: they could quote a client."""

    def __init__(self, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        timestamp = f"{seconds}.{int(record.msecs):03d}Z"
        level = record.levelname.lower()
        event = f"{record.name} {level}"
        if record.name.startswith("open_token"):
            event = record.getMessage()
        if self._is_json:
            line = {"time": timestamp, "level": level, "event": event, **fields}
            return msgspec.json.encode(line).decode()
        if event == "request":
            route = fields["route"] or "-"
            text = f"{fields['method']} {route} {fields['status']} {fields['ms']} ms"
        else:
            pairs = [f"{name}={value}" for name, value in fields.items()]
            text = " ".join([event, *pairs])
        clock_time = timestamp[11:19]
        return f"{clock_time} {text}"


@contextlib.contextmanager
def log_to_stderr(log_format: str) -> Iterator[None]:
    """Log the server's records, and warnings of libraries, to stderr."""
    handler: logging.Handler = logging.NullHandler()
    if log_format != "off":
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter(log_format == "json"))
    root_logger = logging.getLogger()
    own_logger = logging.getLogger("open_token")
    previous_level = own_logger.level
    root_logger.addHandler(handler)
    own_logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        root_logger.removeHandler(handler)
        own_logger.setLevel(previous_level)
