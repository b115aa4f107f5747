"""A Codex rollout told line by line."""

from typing import Any

from open_token.agents.codex import subagents as agents
from open_token.agents.codex.call_ends import facts_of
from open_token.agents.codex.events import event_msg
from open_token.agents.codex.lines import Line
from open_token.agents.codex.mirrored_events import Mirrors, texts_in
from open_token.agents.codex.session_meta import session_meta, tools_given, turn_context
from open_token.agents.codex.thread import Thread
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.responses_items import add_item
from open_token.model.document import Event, Visibility
from open_token.sources.source import Source

_IDE_PREAMBLE = "# Context from my IDE setup"
_IDE_REQUEST = "## My request for Codex:"


def read(source: Source, draft: Draft) -> None:
    """Tell a rollout with the agents that it started."""
    tell(Thread(draft, source, tell_child=tell))


def tell(thread: Thread) -> None:
    """Tell all of a thread's rollout."""
    mirrors = Mirrors()
    for line in agents.own_lines(thread):
        for ready in mirrors.take(line):
            _tell_line(thread, ready)
    for ready in mirrors.rest():
        _tell_line(thread, ready)
    thread.unanswered()
    thread.spending.turn(None, thread.span)
    for span_id, _ in thread.spans.values():
        thread.draft.end_span(span_id)
    if thread.depth:
        _note_repairs(thread)


def _note_repairs(thread: Thread) -> None:
    """What the source of a subagent mended or left out; for the session itself the pipeline says
    it."""
    where, source = f"subagent {thread.id} line", thread.source
    if source.half_line is not None:
        thread.draft.note_omission(
            "half-line",
            f"{where} {source.half_line}",
            "the last line was not complete and is left out",
        )
    for number in source.repaired:
        thread.draft.note_omission(
            "lone-surrogate",
            f"{where} {number}",
            "text that is not valid Unicode was replaced by U+FFFD",
        )


def _tell_line(thread: Thread, line: Line) -> None:
    kind = line.kind
    if kind == "response_item":
        _response_item(thread, line)
    elif kind == "event_msg":
        event_msg(thread, line)
    elif kind == "turn_context":
        turn_context(thread, line)
    elif kind == "session_meta":
        session_meta(thread, line)
    elif kind == "compacted":
        _compacted(thread, line)
    elif kind == "inter_agent_communication":
        _agent_message(thread, line)
    elif kind == "token_usage_record":
        thread.spending.recorded(line.payload.get("usage"))
        thread.draft.note_omission("bookkeeping", line.place, "record token_usage_record")
    elif kind in (
        "world_state",
        "state",
        "inter_agent_communication_metadata",
        "retained_context",
        "metadata",
    ):
        thread.draft.note_omission("bookkeeping", line.place, f"record {format_kind(kind)}")
    else:
        thread.draft.note_omission("unknown-record", line.place, f"record {format_kind(kind)}")


def _response_item(thread: Thread, line: Line) -> None:
    payload = line.payload
    kind = payload.get("type")
    if kind == "message":
        _message(thread, line)
    elif kind == "agent_message":
        _agent_message(thread, line)
    elif kind == "additional_tools":
        tools_given(thread, line)
    elif isinstance(kind, str) and kind.endswith("_output"):
        _output(thread, line)
    else:
        _spoken(thread, line, _with_findings(line) if kind == "web_search_call" else payload)


def _message(thread: Thread, line: Line) -> None:
    role = line.payload.get("role")
    if role == "assistant":
        _spoken(thread, line, line.payload)
        return
    if role == "developer" and texts_in(line.payload.get("content")) == [thread.instructions]:
        thread.draft.note_omission(
            "repeated-instructions",
            line.place,
            "the instructions of the session, again as a message",
        )
        return
    visibility: Visibility | None = None
    if role == "user":
        visibility = "internal" if line.is_injected else thread.visibility
        if not line.is_injected:
            thread.begin_turn(line)
    place = thread.draft.count + 1
    add_item(
        thread.draft,
        line.payload,
        thread.voices,
        ts=line.ts,
        span=thread.span,
        place=line.place,
        visibility=visibility,
        actor=thread.voices.system if line.is_injected else None,
    )
    if visibility == "public":
        _typed_part(thread, line, place)


def _typed_part(thread: Thread, line: Line, number: int) -> None:
    """An editor puts what it knows before the request; the heading says where the person's own
    words begin."""
    texts = texts_in(line.payload.get("content"))
    if texts and texts[-1].startswith(_IDE_PREAMBLE) and _IDE_REQUEST in texts[-1]:
        said: Event = {"id": f"evt_{number:06d}", "actor_id": thread.voices.user}
        thread.note(line, "ide_context", said, typed_after=_IDE_REQUEST)


def _spoken(thread: Thread, line: Line, payload: dict[str, Any]) -> None:
    """What the model said, thought or called."""
    call_id = as_text(payload.get("call_id")) or as_text(payload.get("id"))
    event_id = add_item(
        thread.draft,
        payload,
        thread.voices,
        ts=line.ts,
        span=thread.span,
        group=(thread.id, thread.answers),
        place=line.place,
        visibility=thread.visibility,
    )
    if event_id is None:
        return
    thread.spending.spoke(event_id, payload.get("type") == "reasoning")
    if call_id and thread.draft.is_call_open(call_id):
        tool = as_text(payload.get("name")) or str(payload.get("type")).removesuffix("_call")
        thread.called(call_id, tool, int(event_id[4:]) - 1)
        if payload.get("name") == "spawn_agent":
            agents.spawn_call(thread, call_id, payload)


def _with_findings(line: Line) -> dict[str, Any]:
    """A search with what an event before it said was found."""
    mirror = line.partner
    if mirror is None or mirror.number > line.number:
        return line.payload
    event = mirror.payload.get("item", mirror.payload)
    found = event.get("results") if isinstance(event, dict) else None
    return {"results": found, **line.payload} if found is not None else line.payload


def _output(thread: Thread, line: Line) -> None:
    call_id = as_text(line.payload.get("call_id")) or as_text(line.payload.get("id"))
    if call_id in thread.abandoned:
        thread.draft.note_omission(
            "abandoned-result", line.place, "the output of a call that was taken back"
        )
        return
    end = thread.ends.pop(call_id, None) if call_id else None
    facts = facts_of(line.payload.get("output")) | (end.facts if end else {})
    if call_id in thread.spawns:
        agents.spawn_output(thread, line, str(call_id))
    number = thread.draft.count + 1
    was_open = call_id is not None and thread.draft.is_call_open(call_id)
    add_item(
        thread.draft,
        line.payload,
        thread.voices,
        ts=line.ts,
        span=thread.span,
        place=line.place,
        facts=facts,
    )
    thread.answers += 1
    thread.spending.answered(line.ts, thread.span)
    if call_id and was_open:
        thread.remember(call_id, f"evt_{number:06d}")
        if call_id in thread.calls:
            thread.turns.belong(thread.calls[call_id][1], number - 1)


def _agent_message(thread: Thread, line: Line) -> None:
    """A message from one agent to another, as the model of this thread saw it."""
    author = as_text(line.payload.get("author")) or "agent"
    known = thread.paths.get(author)
    actor = known.voices.assistant if known else thread.draft.get_actor("model", author)
    blocks = parse_content(line.payload.get("content"))
    said = thread.draft.add_message(
        "user", blocks, actor, ts=line.ts, visibility="internal", span=thread.span
    )
    thread.note(line, "agent_message", said, **pick_fields(line.payload, "author", "recipient"))


def _compacted(thread: Thread, line: Line) -> None:
    """The model goes on with a shorter history; what came before stays, and the copy is not told
    again."""
    copy = line.payload.get("replacement_history")
    count = len(copy) if isinstance(copy, list) else None
    thread.spending.settle(line.ts, thread.span)
    thread.note(
        line, "compaction", message=as_text(line.payload.get("message")), replacement_items=count
    )
    thread.just_compacted = True
    if count:
        thread.draft.note_omission(
            "replacement-history", line.place, "the copied context after a compaction"
        )
