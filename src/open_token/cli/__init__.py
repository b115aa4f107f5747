"""The command line. Verbs are loaded only when they are called, so that start-up stays light."""

import sys
from importlib import import_module

from open_token import __version__


def main(argv: list[str] | None = None) -> int:
    """Run one command; gives its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in ("--version", "-V"):
        sys.stdout.write(f"open-token {__version__} (Open-Token format 0.1)\n")
        return 0
    if argv is None:
        import signal

        # A command that is told to stop takes its half-written file along.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code: int = import_module("open_token.cli.command").run(words)
    return code
