"""Logs what should not have happened: where in the code, and never an exception's own words, which
may be content."""

import logging
import traceback


def log_fault(log: logging.Logger, what: str, problem: BaseException) -> None:
    """Say what failed, with the kind of the problem and the lines of code that led to it."""
    way = "".join(traceback.format_tb(problem.__traceback__))
    log.error("%s: %s\n%s", what, type(problem).__name__, way)
