"""Tells one run of an OpenHands benchmark: `output.jsonl` has a line for each task, its events in a
list."""

from itertools import chain
from typing import Any

from open_token.agents.openhands import sdk_events, version0
from open_token.agents.openhands.event_messages import Talk
from open_token.agents.openhands.shapes import flat, is_event, is_run
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
_TOLD = frozenset(("instance_id", "instruction", "history", "metrics", "metadata", "instance"))


def conversations(source: Source) -> list[Found]:
    """The runs of the file, in its order."""
    return LAYOUT.find_conversations(source).list_all(_found)


def _found(part: ExportedConversation) -> Found:
    first = " ".join((as_text(part.value.get("instruction")) or "")[:400].split())
    return Found(part.id, title=first[:80] or None, messages=len(_history(part.value)))


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The run that a line belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Tell the chosen run: the task, the events, how it ended."""
    parts = LAYOUT.find_conversations(source)
    parts.note_other_content(draft)
    part = parts.get_selected(source)
    run = part.value
    draft.conversation["id"] = part.id
    about = run.get("metadata")
    metadata: Body = about if isinstance(about, dict) else {}
    _context(draft, metadata)
    history = _history(run)
    instruction = as_text(run.get("instruction"))
    if instruction and not _says(history[:8], instruction):
        draft.add_message("user", instruction, draft.get_actor("human", "user"))
    _tell(draft, history, _model(metadata), run.get("metrics"))
    told = {name: value for name, value in run.items() if value and name not in _TOLD}
    if told:
        draft.add_annotation(
            {"kind": "outcome"} | told, actor=draft.get_actor("system", "OpenHands")
        )
    if run.get("instance"):
        draft.note_omission(
            "skipped-field", "the run", "the task as the benchmark describes it (instance)"
        )
    note_empty_conversation(source, draft)


def _history(run: Body) -> list[Any]:
    """The events; older runs hold pairs of an action and an observation."""
    return flat(run["history"])


def _model(metadata: Body) -> str | None:
    for name in ("llm_config", "llm"):
        if isinstance(settings := metadata.get(name), dict):
            return as_text(settings.get("model"))
    return None


def _context(draft: Draft, metadata: Body) -> None:
    known = (
        "agent_class",
        "dataset",
        "data_split",
        "dataset_split",
        "max_iterations",
        "git_commit",
        "start_time",
    )
    facts = {name: metadata[name] for name in known if metadata.get(name)}
    if model := _model(metadata):
        facts["model"] = model
    if facts:
        draft.add_annotation(
            {"kind": "context"} | facts, actor=draft.get_actor("system", "OpenHands")
        )


def _says(events: list[Any], words: str) -> bool:
    """Whether one of the first events holds the task, as a rule the first message."""
    for event in events:
        if isinstance(event, dict) and event.get("source") == "user":
            message = event.get("llm_message")
            said = message.get("content") if isinstance(message, dict) else event.get("args", {})
            found = chain(
                (said.get("content") for said in [said] if isinstance(said, dict)),
                (block.get("text") for block in said if isinstance(block, dict))
                if isinstance(said, list)
                else (),
            )
            if words in found:
                return True
    return False


def _tell(draft: Draft, history: list[Any], model: str | None, spent: Any) -> None:
    events = ((f"event {number}", event) for number, event in enumerate(history, 1))
    if history and is_event(history[0]):
        talk = Talk(draft)
        talk.ask(model, spent)
        sdk_events.tell(draft, talk, events)
    else:
        version0.tell(draft, events, model, spent)
