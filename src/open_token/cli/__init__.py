"""The command line. Verbs are loaded only when they are called, so that start-up stays light."""

import atexit
import os
import sys
from importlib import import_module

from open_token import __version__

_SILENT = {"run": "open_token.cli.hooked", "keep": "open_token.cli.keeping"}
"""What runtimes call, and what goes on behind it: no word of theirs may come back as an error, and
they wait."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; gives its exit code."""
    _fill_in_closed()
    words = sys.argv[1:] if argv is None else argv
    asked = words[1:2] if words[:1] == ["--json"] else words[:1]
    if asked in (["--version"], ["-V"]):
        sys.stdout.write(_version(is_json="--json" in words))
        return 0
    if words[:1] == ["hook"] and words[1:2] and words[1] in _SILENT:
        import_module(_SILENT[words[1]]).run(words[2:])
        return _leave(0) if argv is None else 0
    if argv is not None:
        return _run(words)
    import gc
    import signal

    # What is loaded stays: to look through it for garbage would take part of every start. The verb
    # turns it on again.
    gc.disable()
    # A command that is told to stop takes its half-written file along, also when its terminal is
    # closed.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    return _leave(_run(words))


def _version(is_json: bool) -> str:
    if is_json:
        return (
            f'{{"schema": "open-token/version/1", "version": "{__version__}", "format": "0.1"}}\n'
        )
    return f"open-token {__version__} (Open-Token format 0.1)\n"


def _fill_in_closed() -> None:
    """Let a stream that was closed from outside lead nowhere: no file that is opened later may take
    its place."""
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _run(words: list[str]) -> int:
    code: int = import_module("open_token.cli.command").run(words)
    return code


def _leave(code: int) -> int:
    """End at once: all is written, and the system frees memory faster than an interpreter takes
    itself down."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
