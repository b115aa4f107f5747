"""What came of a tool's run in Amp: its output, and what is known beside it."""

from typing import Any

_UNFINISHED = ("queued", "in-progress", "blocked-on-user")
_SHELL = frozenset(("output", "exitCode", "truncation", "cwd"))


def run_of(run: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """Output and facts; None when the run is not over and has brought nothing."""
    status = run.get("status")
    facts: dict[str, Any] = {}
    if isinstance(status, str) and status not in ("done", "success"):
        facts["status"] = status
    if status in ("error", "cancelled", "rejected-by-user"):
        facts["is_error"] = True
    if status == "rejected-by-user":
        facts["rejected"] = True
    output = _output(run, facts)
    return (
        None
        if output is None and status in _UNFINISHED
        else (output if output is not None else "", facts)
    )


def _output(run: dict[str, Any], facts: dict[str, Any]) -> Any:
    """The result, else why there is none, else what came before it was stopped."""
    if (result := run.get("result")) is not None:
        return _shell_output(result, facts)
    error = run.get("error")
    if isinstance(error, dict):
        facts |= {
            name: error[name] for name in ("code", "errorCode") if error.get(name) is not None
        }
        error = error.get("message", error)
    for found in (error, run.get("reason"), run.get("output"), run.get("content")):
        if found is not None:
            return found
    progress = run.get("progress")
    return progress.get("output", progress) if isinstance(progress, dict) else progress


def _shell_output(result: Any, facts: dict[str, Any]) -> Any:
    """A command's output without its exit code, which is a fact about it."""
    if (
        not isinstance(result, dict)
        or not isinstance(result.get("output"), str)
        or not _SHELL.issuperset(result)
    ):
        return result
    if result.get("exitCode") is not None:
        facts["exit_code"] = result["exitCode"]
    facts |= {name: result[name] for name in ("truncation", "cwd") if result.get(name)}
    return result["output"]
