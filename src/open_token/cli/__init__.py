"""The command line. Commands are imported only when they run, so that start-up stays fast."""

import atexit
import os
import sys

from open_token import __version__


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _reopen_closed_streams()
    words = sys.argv[1:] if argv is None else argv
    if _is_version_request(words):
        sys.stdout.write(_format_version(is_json="--json" in words))
        return 0
    if words[:2] == ["hook", "run"]:
        # Agents wait for this one, and no error may reach them: nothing else is loaded.
        from open_token.cli import hook_run

        hook_run.run(words[2:])
        return _exit_fast(0) if argv is None else 0
    if words[:2] == ["hook", "keep"]:
        from open_token.cli import hook_keep

        hook_keep.run(words[2:])
        return _exit_fast(0) if argv is None else 0
    if argv is not None:
        return _run(words)
    import gc

    # Collecting garbage while modules are imported would slow down every start; the dispatcher
    # turns it on again.
    gc.disable()
    _exit_on_signals()
    return _exit_fast(_run(words))


def _is_version_request(words: list[str]) -> bool:
    first = words[1:2] if words[:1] == ["--json"] else words[:1]
    return first in (["--version"], ["-V"])


def _format_version(is_json: bool) -> str:
    if is_json:
        # Written by hand: a JSON library would double the start-up time.
        schema = '"schema": "open-token/version/1"'
        return f'{{{schema}, "version": "{__version__}", "format": "0.1"}}\n'
    return f"open-token {__version__} (Open-Token format 0.1)\n"


def _reopen_closed_streams() -> None:
    """Point standard streams that the parent closed to the null device.

    Otherwise the next file that is opened would take the place of stdout or stderr."""
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _exit_on_signals() -> None:
    """Exit in an orderly way on SIGTERM and SIGHUP, so that temporary files are removed."""
    import signal

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # An ignored signal, such as SIGHUP under nohup, stays ignored.
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _run(words: list[str]) -> int:
    from open_token.cli import dispatch

    return dispatch.run(words)


def _exit_fast(code: int) -> int:
    """End the process without tearing down the interpreter, which takes longer than the exit."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
