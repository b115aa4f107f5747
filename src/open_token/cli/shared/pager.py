"""Long output on a terminal: through the user's pager, as git and man do."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable

from open_token.cli.shared.console import Console

_DEFAULT_PAGER = "less"
# Quit if it fits on one screen, show colors, leave the text on the screen.
_LESS_FLAGS = "FRX"


def print_paged(lines: Iterable[str], console: Console, *, first_line: int = 0) -> None:
    """Print lines; on a terminal through a pager that opens at a line, counted from 0."""
    command = _find_pager(console)
    if command is None:
        for line in lines:
            console.print(line)
        return
    env = {**console.env}
    env.setdefault("LESS", _LESS_FLAGS)
    if first_line and command[0].rpartition("/")[2] == "less":
        # With -F a short text would be printed without stopping at the line.
        command = [*command, f"+{first_line + 1}g"]
        env["LESS"] = env["LESS"].replace("F", "")
    sys.stdout.flush()
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        try:
            for line in lines:
                process.stdin.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            process.stdin.close()
        except BrokenPipeError:
            pass  # the user has seen enough
        _wait(process)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the pager; Ctrl-C in it is for the pager alone."""
    while True:
        try:
            process.wait()
            return
        except KeyboardInterrupt:
            continue


def _find_pager(console: Console) -> list[str] | None:
    """Return the command of the pager; None where there is none or no screen."""
    if not console.stdout_is_terminal or not sys.stdin.isatty():
        return None
    wanted = console.env.get("OPEN_TOKEN_PAGER", console.env.get("PAGER", _DEFAULT_PAGER))
    try:
        command = shlex.split(wanted)
    except ValueError:
        return None
    if not command or command == ["cat"] or shutil.which(command[0]) is None:
        return None
    return command
