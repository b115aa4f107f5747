"""Read an OpenHands conversation in whichever of its four forms the input is."""

from typing import Any

from open_token.agents.openhands import benchmark_runs, completion_logs, sdk_events, version0
from open_token.agents.openhands.detect import has_runs
from open_token.agents.openhands.shapes import EVENTS, flat, is_event, is_log, is_old_event
from open_token.builder.draft import Draft
from open_token.model.document import Found
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    sample = flat(source.sample)
    if source.shape == "folder":
        if _is_sdk_folder(source):
            sdk_events.read(source, draft)
        else:
            version0.read(source, draft)
    elif any(map(is_old_event, sample)) and not any(map(is_event, sample)):
        version0.read(source, draft)
    elif sample and is_log(sample[0]):
        completion_logs.read(source, draft)
    elif has_runs(source):
        benchmark_runs.read(source, draft)
    else:
        sdk_events.read(source, draft)


def _is_sdk_folder(source: Source) -> bool:
    if source.find_files("base_state.json"):
        return True
    return any(source.find_files(pattern) for pattern in EVENTS)


def list_conversations(source: Source) -> list[Found]:
    """List the runs of a benchmark; every other form is one conversation."""
    if source.shape == "folder" or not has_runs(source):
        return []
    return benchmark_runs.conversations(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the benchmark run that a line belongs to."""
    if source.shape == "folder" or not has_runs(source):
        return None
    return benchmark_runs.belongs(source, at, value)
