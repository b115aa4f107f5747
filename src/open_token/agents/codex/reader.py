"""Read a Codex rollout with its subagents, or the stream of `codex exec --json`."""

from typing import Any

from open_token.agents.codex import subagents
from open_token.agents.codex.compactions import mark_summaries
from open_token.agents.codex.duplicates import get_texts, match_duplicates
from open_token.agents.codex.events import read_event
from open_token.agents.codex.exec_stream import read_stream
from open_token.agents.codex.records import Line, is_exec_stream
from open_token.agents.codex.session_context import (
    read_session_meta,
    read_tools,
    read_turn_context,
)
from open_token.agents.codex.thread import Thread
from open_token.agents.codex.tool_events import parse_output_facts
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.responses_items import add_item
from open_token.model.document import Event, Visibility
from open_token.sources.source import Source

_IDE_PREAMBLE = "# Context from my IDE setup"
_IDE_REQUEST = "## My request for Codex:"
_BOOKKEEPING = (
    "world_state",
    "state",
    "inter_agent_communication_metadata",
    "retained_context",
    "metadata",
)


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if is_exec_stream(records):
        read_stream(source, draft)
    else:
        read_thread(Thread(draft, source, read_child=read_thread))


def read_thread(thread: Thread) -> None:
    """Read the rollout of a thread, with the subagents that it started."""
    lines = match_duplicates(subagents.read_own_lines(thread))
    for line in mark_summaries(lines):
        _read_line(thread, line)
    thread.close_unanswered_calls()
    thread.usage.end_turn(None, thread.span)
    for span_id, _ in thread.spans.values():
        thread.draft.end_span(span_id)
    if thread.depth:
        # For the session's own file the pipeline does this.
        note_file_faults(thread.source, f"subagent {thread.id}", thread.draft)


def _read_line(thread: Thread, line: Line) -> None:
    kind = line.kind
    if kind == "response_item":
        _read_response_item(thread, line)
    elif kind == "event_msg":
        read_event(thread, line)
    elif kind == "turn_context":
        read_turn_context(thread, line)
    elif kind == "session_meta":
        read_session_meta(thread, line)
    elif kind == "compacted":
        _read_compaction(thread, line)
    elif kind == "inter_agent_communication":
        _read_agent_message(thread, line)
    elif kind == "token_usage_record":
        thread.usage.add_record(line.payload.get("usage"))
        thread.draft.note_omission("bookkeeping", line.position, "record token_usage_record")
    elif kind in _BOOKKEEPING:
        thread.draft.note_omission("bookkeeping", line.position, f"record {format_kind(kind)}")
    else:
        thread.draft.note_omission("unknown-record", line.position, f"record {format_kind(kind)}")


def _read_response_item(thread: Thread, line: Line) -> None:
    payload = line.payload
    kind = payload.get("type")
    if kind == "message":
        _read_message(thread, line)
    elif kind == "agent_message":
        _read_agent_message(thread, line)
    elif kind == "additional_tools":
        read_tools(thread, line)
    # Outputs of any tool, also of tools of later versions.
    elif isinstance(kind, str) and kind.endswith("_output"):
        _read_output(thread, line)
    elif kind == "web_search_call":
        _add_model_output(thread, line, _add_search_results(line))
    else:
        _add_model_output(thread, line, payload)


def _read_message(thread: Thread, line: Line) -> None:
    role = line.payload.get("role")
    if role == "assistant":
        _add_model_output(thread, line, line.payload)
        return
    # The header of the session has the instructions already; some versions send them again.
    if role == "developer" and get_texts(line.payload.get("content")) == [thread.instructions]:
        thread.draft.note_omission(
            "repeated-instructions",
            line.position,
            "instructions of the session, repeated as a message",
        )
        return
    visibility: Visibility | None = None
    if role == "user":
        # AGENTS.md and the environment are sent as messages of the user before the first prompt.
        if line.is_injected:
            visibility = "internal"
        else:
            visibility = thread.visibility
            thread.begin_turn(line)
    number = thread.draft.count + 1
    add_item(
        thread.draft,
        line.payload,
        thread.actors,
        ts=line.ts,
        span=thread.span,
        place=line.position,
        visibility=visibility,
        actor=thread.actors.system if line.is_injected else None,
    )
    if visibility == "public":
        _annotate_ide_context(thread, line, number)


def _annotate_ide_context(thread: Thread, line: Line, number: int) -> None:
    """Annotate a prompt from an editor, which puts context before the typed request."""
    texts = get_texts(line.payload.get("content"))
    if not texts:
        return
    prompt = texts[-1]
    if prompt.startswith(_IDE_PREAMBLE) and _IDE_REQUEST in prompt:
        message: Event = {"id": f"evt_{number:06d}", "actor_id": thread.actors.user}
        thread.annotate(line, "ide_context", message, typed_after=_IDE_REQUEST)


def _add_model_output(thread: Thread, line: Line, payload: dict[str, Any]) -> None:
    """Add a message, reasoning or a call of the model."""
    call_id = as_text(payload.get("call_id")) or as_text(payload.get("id"))
    event_id = add_item(
        thread.draft,
        payload,
        thread.actors,
        ts=line.ts,
        span=thread.span,
        group=(thread.id, thread.answer_count),
        place=line.position,
        visibility="internal" if line.is_summary else thread.visibility,
    )
    if event_id is None:
        return
    if line.is_summary:
        summary: Event = {"id": event_id, "actor_id": thread.actors.assistant}
        thread.annotate(line, "compaction_summary", summary)
    thread.usage.add_output(event_id, payload.get("type") == "reasoning")
    if call_id and thread.draft.is_call_open(call_id):
        tool = as_text(payload.get("name")) or str(payload.get("type")).removesuffix("_call")
        thread.add_call(call_id, tool, int(event_id[4:]) - 1)
        if payload.get("name") == "spawn_agent":
            subagents.add_spawn_call(thread, call_id, payload)


def _add_search_results(line: Line) -> dict[str, Any]:
    """Return a search with the results that an event before it has."""
    event_line = line.counterpart
    if event_line is None or event_line.number > line.number:
        return line.payload
    event = event_line.payload.get("item", event_line.payload)
    results = event.get("results") if isinstance(event, dict) else None
    if results is None:
        return line.payload
    return {"results": results, **line.payload}


def _read_output(thread: Thread, line: Line) -> None:
    call_id = as_text(line.payload.get("call_id")) or as_text(line.payload.get("id"))
    if call_id in thread.abandoned_calls:
        thread.draft.note_omission(
            "abandoned-result", line.position, "output of a call that was rolled back"
        )
        return
    facts = parse_output_facts(line.payload.get("output"))
    end = thread.ends.pop(call_id, None) if call_id else None
    if end:
        facts |= end.facts
    if call_id in thread.spawns:
        subagents.read_spawn_output(thread, line, str(call_id))
    position = thread.draft.count
    was_open = call_id is not None and thread.draft.is_call_open(call_id)
    add_item(
        thread.draft,
        line.payload,
        thread.actors,
        ts=line.ts,
        span=thread.span,
        place=line.position,
        facts=facts,
    )
    # Calls between two outputs belong to one answer and form a group.
    thread.answer_count += 1
    thread.usage.add_result(line.ts, thread.span)
    thread.unseen.add_shown(call_id, line.payload.get("output"))
    if call_id and was_open:
        thread.add_result(call_id, f"evt_{position + 1:06d}")
        if "session_id" in facts:
            thread.running.add(call_id)
        if end:
            thread.unseen.add_report(
                end.report,
                call_id,
                thread.results[call_id],
                line.ts,
                ran_on=call_id in thread.running,
            )
        if call_id in thread.calls:
            thread.turns.assign(thread.calls[call_id].position, position)


def _read_agent_message(thread: Thread, line: Line) -> None:
    """Add a message from another agent, as the model of this thread received it."""
    author = as_text(line.payload.get("author")) or "agent"
    # Agents address each other by the paths of their threads.
    sender = thread.paths.get(author)
    actor = sender.actors.assistant if sender else thread.draft.get_actor("model", author)
    message = thread.draft.add_message(
        "user",
        parse_content(line.payload.get("content")),
        actor,
        ts=line.ts,
        visibility="internal",
        span=thread.span,
    )
    thread.annotate(
        line, "agent_message", message, **pick_fields(line.payload, "author", "recipient")
    )


def _read_compaction(thread: Thread, line: Line) -> None:
    """Annotate a compaction; the shortened history repeats earlier lines and is left out."""
    history = line.payload.get("replacement_history")
    count = len(history) if isinstance(history, list) else None
    thread.usage.flush(line.ts, thread.span)
    thread.annotate(
        line, "compaction", message=as_text(line.payload.get("message")), replacement_items=count
    )
    thread.was_just_compacted = True
    if count:
        thread.draft.note_omission(
            "replacement-history", line.position, "copy of the context after a compaction"
        )
