"""OpenHands: folders and streams of its SDK's events, lists of the first version, runs of
benchmarks, model logs."""

from typing import Any

from open_token.agents.openhands.shapes import (
    EVENTS,
    OLD_EVENTS,
    flat,
    is_event,
    is_log,
    is_old_event,
    is_run,
    is_state,
)
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether it is a conversation folder, a file of one, a stream or list of events, or a log of
    model calls."""
    if source.shape == "folder":
        return _is_folder(source)
    sample = flat(source.sample)
    if not sample:
        return False
    if any(is_event(record) or is_old_event(record) for record in sample):
        return True
    return (
        (is_state(sample[0]) and len(sample) == 1)
        or all(is_log(record) for record in sample)
        or has_runs(source)
    )


def has_runs(source: Source) -> bool:
    """A line for each run of a benchmark; where the first run broke off before its first event, a
    later one tells."""
    return source.shape in ("lines", "document", "glued") and any(
        is_run(record) for record in flat(source.sample)
    )


def _is_folder(source: Source) -> bool:
    if any(
        is_state(state.sample[0]) for state in source.find_files("base_state.json") if state.sample
    ):
        return True
    for patterns, is_ours in ((EVENTS, is_event), (OLD_EVENTS, is_old_event)):
        for pattern in patterns:
            if files := source.find_files(pattern):
                return bool(files[0].sample) and is_ours(files[0].sample[0])
    return False


def peek(records: list[Any]) -> dict[str, str]:
    """What the state of a conversation tells: its id and the folder it works in."""
    told: dict[str, str] = {}
    for record in records:
        if is_state(record):
            workspace = record.get("workspace")
            folder = workspace.get("working_dir") if isinstance(workspace, dict) else None
            told |= {
                name: value
                for name, value in (("id", record["id"]), ("cwd", folder))
                if isinstance(value, str)
            }
    return told
