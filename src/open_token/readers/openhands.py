"""OpenHands: conversation folders and event streams of its SDK, lists of the first version, logs of model calls."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.readers._openhands_shapes import EVENTS, OLD_EVENTS, flat, is_event, is_log, is_old_event, is_state
from open_token.source import Source

TITLE = "OpenHands"
PLACES = (
    "$OPENHANDS_CONVERSATIONS_DIR/*/base_state.json",
    "$OPENHANDS_PERSISTENCE_DIR/conversations/*/base_state.json",
    ".openhands/conversations/*/base_state.json",
)
PARTS = ("event-[0-9]*-*.json",)
SEEN = "SDK 1.x conversation folders and events, logs of model calls; the lists of version 0 are described, not seen"
CARRIES = "Prompts, words, thoughts, calls, results with exit codes, condensations, errors, pauses, tokens and costs."
LEAVES = "State updates, token ids, files before and after an edit; times, which have no zone."


def sniff(source: Source) -> bool:
    """Whether it is a conversation folder, a file of one, a stream or list of events, or a log of model calls."""
    if source.shape == "folder":
        return _is_folder(source)
    sample = flat(source.sample)
    if not sample:
        return False
    first = sample[0]
    if is_event(first) or is_old_event(first):
        return True
    return (is_state(first) and len(sample) == 1) or all(is_log(record) for record in sample)


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
            told |= {name: value for name, value in (("id", record["id"]), ("cwd", folder)) if isinstance(value, str)}
    return told


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    part = "_openhands_events"
    sample = flat(source.sample)
    if source.shape == "folder":
        if not (source.below("base_state.json") or any(source.below(pattern) for pattern in EVENTS)):
            part = "_openhands_old"
    elif sample and is_old_event(sample[0]):
        part = "_openhands_old"
    elif sample and is_log(sample[0]):
        part = "_openhands_logs"
    import_module(f"open_token.readers.{part}").read(source, draft)
