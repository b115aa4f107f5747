"""Read a run of an OpenHands benchmark: `output.jsonl` has a line with events for each task."""

from typing import Any

from open_token.agents.openhands import sdk_events, version0
from open_token.agents.openhands.detect import flatten, is_run, is_sdk_event
from open_token.builder.draft import Draft
from open_token.formats.shared.export_archive import (
    ExportedConversation,
    ExportLayout,
    note_empty_conversation,
)
from open_token.formats.shared.fields import as_text
from open_token.model.document import Found
from open_token.sources.source import Source

Body = dict[str, Any]
LAYOUT = ExportLayout(
    globs=(), sign=b"openhands-runs", is_one=is_run, id_of=lambda run: run["instance_id"]
)
_CONTEXT_FIELDS = (
    "agent_class",
    "dataset",
    "data_split",
    "dataset_split",
    "max_iterations",
    "git_commit",
    "start_time",
)
_READ_FIELDS = frozenset(
    ("instance_id", "instruction", "history", "metrics", "metadata", "instance")
)


def list_runs(source: Source) -> list[Found]:
    """List the runs of the file, in its order."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def _describe(part: ExportedConversation) -> Found:
    instruction = as_text(part.value.get("instruction")) or ""
    title = " ".join(instruction[:400].split())[:80]
    # Version 0 stores pairs of action and observation: a list of lists.
    events = flatten(part.value["history"])
    return Found(part.id, title=title or None, messages=len(events))


def find_owner_of_line(source: Source, at: str, value: Any) -> str | None:
    """Return the run that a line belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def read_run(source: Source, draft: Draft) -> None:
    """Read the task, the events and the outcome of the chosen run."""
    parts = LAYOUT.find_conversations(source)
    parts.note_other_content(draft)
    part = parts.get_selected(source)
    run = part.value
    draft.conversation["id"] = part.id
    metadata = run.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    model = _get_model(metadata)
    _read_context(draft, metadata, model)
    # Older runs hold pairs of an action and an observation.
    history = flatten(run["history"])
    instruction = as_text(run.get("instruction"))
    # Usually the first message repeats the instruction.
    if instruction and not _has_prompt(history[:8], instruction):
        draft.add_message("user", instruction, draft.get_actor("human", "user"))
    _read_history(draft, history, model, run.get("metrics"))
    outcome = {name: value for name, value in run.items() if value and name not in _READ_FIELDS}
    if outcome:
        draft.add_annotation(
            {"kind": "outcome"} | outcome, actor=draft.get_actor("system", "OpenHands")
        )
    if run.get("instance"):
        draft.note_omission(
            "skipped-field", "the run", "the benchmark's description of the task (instance)"
        )
    note_empty_conversation(source, draft)


def _get_model(metadata: Body) -> str | None:
    for name in ("llm_config", "llm"):
        settings = metadata.get(name)
        if isinstance(settings, dict):
            return as_text(settings.get("model"))
    return None


def _read_context(draft: Draft, metadata: Body, model: str | None) -> None:
    facts = {name: metadata[name] for name in _CONTEXT_FIELDS if metadata.get(name)}
    if model:
        facts["model"] = model
    if facts:
        draft.add_annotation(
            {"kind": "context"} | facts, actor=draft.get_actor("system", "OpenHands")
        )


def _has_prompt(events: list[Any], prompt: str) -> bool:
    """Return whether one of the first events, usually the first message, is the prompt."""
    for event in events:
        if not isinstance(event, dict) or event.get("source") != "user":
            continue
        message = event.get("llm_message")
        content = message.get("content") if isinstance(message, dict) else event.get("args", {})
        texts: list[Any] = []
        if isinstance(content, dict):
            texts.append(content.get("content"))
        elif isinstance(content, list):
            texts += [block.get("text") for block in content if isinstance(block, dict)]
        if prompt in texts:
            return True
    return False


def _read_history(draft: Draft, history: list[Any], model: str | None, metrics: Any) -> None:
    events = ((f"event {number}", event) for number, event in enumerate(history, 1))
    if history and is_sdk_event(history[0]):
        reader = sdk_events.EventReader(draft)
        reader.set_model(model, metrics)
        sdk_events.read_events(draft, reader, events)
    else:
        version0.read_events(draft, events, model, metrics)
