"""The option --jobs, and one progress line over many sessions."""

import argparse
from typing import TYPE_CHECKING

from open_token.cli.shared.console import Console, pluralize
from open_token.cli.shared.progress import Progress
from open_token.errors import UsageError

if TYPE_CHECKING:
    from open_token.library.discovery import Session

_MAX_JOBS = 1024


def add_jobs_option(group: argparse._ArgumentGroup, condition: str = "") -> None:
    """Add --jobs to the options of a command that works on many inputs.

    `condition` begins its help text, where it is not for every use of the command."""
    meaning = f"{condition}work" if condition else "Work"
    group.add_argument(
        "--jobs", metavar="N", help=f"{meaning} in N processes [default: one for each core]"
    )


def parse_jobs(args: argparse.Namespace) -> int:
    """Return the number of processes to use at most."""
    if args.jobs is None:
        # Imported here: an export of one conversation starts no processes.
        from open_token.library.jobs import count_cores

        return count_cores()
    is_number = args.jobs.isascii() and args.jobs.isdecimal()
    if not is_number or not 1 <= int(args.jobs) <= _MAX_JOBS:
        raise UsageError(
            f"--jobs must be a number from 1 to {_MAX_JOBS}",
            help="for example --jobs 4; --jobs 1 works in this process alone",
        )
    return int(args.jobs)


class SessionsProgress:
    """One progress line over all sessions of a pass, by bytes, with the rate and the time left."""

    def __init__(self, action: str, console: Console) -> None:
        self._action = action
        self._console = console
        self._progress: Progress | None = None
        self._done = 0

    def begin(self, due: "list[Session]") -> None:
        """Start with the sessions that are due."""
        total = sum(session.bytes for session in due)
        action = f"{self._action} {pluralize(len(due), 'session')}"
        self._progress = Progress(total, self._console, action, has_rate=True)
        self._progress.begin()

    def report(self, session: "Session") -> None:
        """Report one session that is done."""
        self._done += session.bytes
        if self._progress is not None:
            self._progress(self._done)

    def clear(self) -> None:
        """Remove the line before something else is printed."""
        if self._progress is not None:
            self._progress.clear()

    def close(self) -> None:
        """Remove the line for good."""
        if self._progress is not None:
            self._progress.end()
