"""OpenHands: folders and streams of its SDK's events, lists of the first version, runs of
benchmarks, model logs."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._openhands_shapes import (
    EVENTS,
    OLD_EVENTS,
    flat,
    is_event,
    is_log,
    is_old_event,
    is_run,
    is_state,
)
from open_token.source import Source

TITLE = "OpenHands"
PLACES = (
    "$OPENHANDS_CONVERSATIONS_DIR/*/base_state.json",
    "$OPENHANDS_PERSISTENCE_DIR/conversations/*/base_state.json",
    ".openhands/conversations/*/base_state.json",
)
PARTS = ("event-[0-9]*-*.json",)
SEEN = (
    "SDK 1.x conversation folders and events, logs of model calls; "
    "the lists of version 0 and the output.jsonl of benchmarks are described, not seen"
)
CARRIES = (
    "Prompts, words, thoughts, calls, results with exit codes, condensations, errors, pauses, tokens and costs; "
    "of a benchmark also the task and how each run ended."
)
LEAVES = (
    "State updates, token ids, files before and after an edit; times, which have no zone; "
    "a benchmark's own description of a task."
)
ASIDE = ("tools", "persistence_dir")
"""Fields that nobody said."""


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
        or _has_runs(source)
    )


def _has_runs(source: Source) -> bool:
    """A line for each run of a benchmark; where the first run broke off before its first event, a
    later one tells."""
    return source.shape in ("lines", "document", "glued") and any(
        is_run(record) for record in flat(source.sample)
    )


def _is_folder(source: Source) -> bool:
    if any(is_state(state.sample[0]) for state in source.below("base_state.json") if state.sample):
        return True
    for patterns, is_ours in ((EVENTS, is_event), (OLD_EVENTS, is_old_event)):
        for pattern in patterns:
            if files := source.below(pattern):
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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    part = "_openhands_runs" if _has_runs(source) else "_openhands_events"
    sample = flat(source.sample)
    if source.shape == "folder":
        if not (
            source.below("base_state.json") or any(source.below(pattern) for pattern in EVENTS)
        ):
            part = "_openhands_old"
    elif any(map(is_old_event, sample)) and not any(map(is_event, sample)):
        part = "_openhands_old"
    elif sample and is_log(sample[0]):
        part = "_openhands_logs"
    import_module(f"open_token.readers.{part}").read(source, draft)


def conversations(source: Source) -> list[Found]:
    """The runs of a benchmark; every other form is one conversation."""
    if source.shape == "folder" or not _has_runs(source):
        return []
    found: list[Found] = import_module("open_token.readers._openhands_runs").conversations(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The run that a line belongs to; all other forms are nobody's but their own."""
    if source.shape == "folder" or not _has_runs(source):
        return None
    name: str | None = import_module("open_token.readers._openhands_runs").belongs(
        source, at, value
    )
    return name
