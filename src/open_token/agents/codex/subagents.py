"""Subagents of a Codex thread: a span for each, with the events of its own rollout inside."""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from open_token.agents.codex.records import Line, read_lines
from open_token.agents.codex.thread import Thread
from open_token.formats.shared.fields import (
    as_text,
    drop_nulls,
    get_dicts,
    parse_arguments,
    pick_fields,
)
from open_token.sources.source import Source

_THREAD_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_MAX_DEPTH = 8
_LOOKAHEAD = 64
_RUNNING = ("pending_init", "pendingInit", "running", "interrupted")


def _start_subagent(
    thread: Thread, line: Line, child_id: str | None, call_id: str | None, facts: dict[str, Any]
) -> None:
    """Open the span of a subagent; add its events if its rollout is in the same folder tree."""
    draft = thread.draft
    # Several events are about one subagent: its spawn, its activity, and waiting for it.
    if child_id is None or child_id in thread.spans or child_id in thread.known_threads:
        return
    thread.known_threads.add(child_id)
    if draft.subagents == "none":
        draft.note_omission("subagent", line.position, "a subagent and what it did")
        return
    source = None
    if draft.subagents == "inline" and thread.depth < _MAX_DEPTH:
        source = _find_rollout(thread.source, child_id)
    child = _build_child(thread, child_id, facts, source)
    path = as_text(facts.get("agent_path"))
    if path:
        thread.paths[path.rpartition("/")[0]] = thread
        thread.paths[path] = child
    data = {"kind": "subagent", "thread_id": child_id, **facts}
    if thread.span:
        data["parent_span"] = thread.span
    if source is None:
        data["reference"] = child_id
    child.span = draft.start_span(data, child.actors.assistant, ts=line.ts, call=call_id)
    thread.spans[child_id] = child.span, draft.count - 1
    if source is not None:
        thread.read_child(child)


def _build_child(
    thread: Thread, child_id: str, facts: dict[str, Any], source: Source | None
) -> Thread:
    model = as_text(facts.get("model"))
    if model is None and source is not None:
        model = _find_model(source)
    return Thread(
        thread.draft,
        source or thread.source,
        depth=thread.depth + 1,
        name=as_text(facts.get("nickname")) or as_text(facts.get("role")) or "subagent",
        provider=thread.provider,
        model=model,
        id=child_id,
        user=thread.actors.assistant,
        known_threads=thread.known_threads,
        read_child=thread.read_child,
        parent=thread.source,
        paths=thread.paths,
    )


def _find_model(source: Source) -> str | None:
    """Return the model of a subagent's first own turn; turns copied from its parent precede it."""
    for record in reversed(source.sample):
        if not isinstance(record, dict) or record.get("type") != "turn_context":
            continue
        payload = record.get("payload")
        model = as_text(payload.get("model")) if isinstance(payload, dict) else None
        if model:
            return model
    return None


def _find_rollout(source: Source, thread_id: str) -> Source | None:
    """Return the rollout of a thread: in the same folder, else on another day of the same tree."""
    if not _THREAD_ID.fullmatch(thread_id):
        return None
    folders = ["", "../*/", "../../*/*/", "../../../*/*/*/"]
    # Rollouts are stored by date: sessions/2026/01/31/rollout-*.jsonl.
    if source.path is None or not source.path.parent.name.isdecimal():
        folders = [""]
    name = f"rollout-*{thread_id}.jsonl"
    for pattern in [folder + ending for folder in folders for ending in (name, f"{name}.zst")]:
        matches = source.find_siblings(pattern)
        if matches:
            return matches[0]
    return None


def read_own_lines(thread: Thread) -> Iterator[Line]:
    """Yield the lines of a rollout, without history that was copied from the thread's parent."""
    lines = read_lines(thread.source)
    if thread.parent is None:
        return _insert_history(thread, lines, {thread.source.path})
    labelled = _label_lines(lines, f"subagent {thread.id} line")
    return _skip_copied_history(thread, labelled, read_lines(thread.parent))


def _insert_history(
    thread: Thread, lines: Iterator[Line], known_paths: set[Path | None]
) -> Iterator[Line]:
    """Yield the lines of a fork with the history that it only refers to (history_base, 0.16x)."""
    for line in lines:
        yield line
        base = line.payload.get("history_base")
        if line.kind == "session_meta" and isinstance(base, dict):
            yield from _read_history(thread, line, base, known_paths)


def _read_history(
    thread: Thread, line: Line, base: dict[str, Any], known_paths: set[Path | None]
) -> Iterator[Line]:
    thread_id = as_text(base.get("thread_id"))
    end = base.get("end_ordinal_exclusive")
    source = _find_rollout(thread.source, thread_id) if thread_id else None
    if source is None or type(end) is not int or source.path in known_paths:
        thread.draft.note_omission(
            "history-elsewhere", line.position, "history before the fork, which is in another file"
        )
        return
    labelled = _label_lines(read_lines(source), f"thread {thread_id} line")
    lines = _insert_history(thread, labelled, known_paths | {source.path})
    yield from takewhile(lambda other: _is_before(other, end), lines)


def _is_before(line: Line, end: int) -> bool:
    """Return whether a line of a file precedes a fork; one that is no record says nothing."""
    if not isinstance(line.record, dict):
        return True
    ordinal = line.record.get("ordinal")
    return isinstance(ordinal, int) and ordinal < end


def _label_lines(lines: Iterator[Line], label: str) -> Iterator[Line]:
    for line in lines:
        line.label = label
        yield line


def _skip_copied_history(
    thread: Thread, child: Iterator[Line], parent: Iterator[Line]
) -> Iterator[Line]:
    """Yield the lines of a subagent; a forked one begins with a copy of its parent's history."""
    first = next(child, None)
    if first is None:
        return
    yield first
    if not first.payload.get("forked_from_id"):
        yield from child
        return
    # Lines that differ from the parent's, but may still be followed by copied ones: a state is
    # written anew with each copy (0.16x).
    pending: list[Line] = []
    copied_turns: set[str] = set()
    lookahead: deque[Line] = deque()
    for line in child:
        turn = as_text(line.payload.get("turn_id"))
        if turn in copied_turns or _is_copied(line, lookahead, parent):
            if turn:
                copied_turns.add(turn)
            for copied in (*pending, line):
                thread.draft.note_omission(
                    "copied-history", copied.position, "history copied from the parent thread"
                )
            pending = []
            continue
        pending.append(line)
        if line.kind == "response_item":
            break
    yield from pending
    yield from child


def _is_copied(line: Line, lookahead: deque[Line], parent: Iterator[Line]) -> bool:
    """Return whether a line is among the next ones of the parent, and skip those before it.

    For a session_meta all lines of the parent are searched.
    """
    if line.kind == "session_meta":
        lookahead.clear()
        return any(line.kind == other.kind and line.payload == other.payload for other in parent)
    lookahead.extend(islice(parent, _LOOKAHEAD - len(lookahead)))
    for index, other in enumerate(lookahead):
        if line.kind == other.kind and line.payload == other.payload:
            for _ in range(index + 1):
                lookahead.popleft()
            return True
    return False


def add_spawn_call(thread: Thread, call_id: str, item: dict[str, Any]) -> None:
    """Remember the arguments of a spawn_agent call until its output names the thread."""
    given = parse_arguments(item.get("arguments"))
    if isinstance(given, dict):
        thread.spawns[call_id] = _drop_missing(
            spawn_reason=given.get("message", given.get("prompt")),
            role=given.get("agent_type"),
            model=given.get("model"),
            reasoning_effort=given.get("reasoning_effort"),
        )


def read_spawn_output(thread: Thread, line: Line, call_id: str) -> None:
    """Read the output of a spawn_agent call."""
    facts = thread.spawns.pop(call_id)
    output = parse_arguments(line.payload.get("output"))
    if isinstance(output, dict):
        facts |= pick_fields(output, "nickname")
        _start_subagent(thread, line, as_text(output.get("agent_id")), call_id, facts)


def read_spawn_end(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read collab_agent_spawn_end."""
    facts = _drop_missing(
        spawn_reason=event.get("prompt"),
        role=event.get("new_agent_role"),
        nickname=event.get("new_agent_nickname"),
        model=event.get("model"),
        reasoning_effort=event.get("reasoning_effort"),
    )
    child_id = as_text(event.get("new_thread_id"))
    _start_subagent(thread, line, child_id, as_text(event.get("call_id")), facts)


def _drop_missing(**facts: Any) -> dict[str, Any]:
    return drop_nulls(facts)


def read_activity(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read sub_agent_activity of the second multi-agent version: start, message or stop."""
    child_id = as_text(event.get("agent_thread_id"))
    kind = as_text(event.get("kind"))
    if kind == "started":
        call_id = as_text(event.get("event_id")) or as_text(event.get("id"))
        facts = pick_fields(event, "agent_path", "model", "reasoning_effort")
        _start_subagent(thread, line, child_id, call_id, facts)
    elif kind == "completed":
        _end_subagent(thread, line, child_id, kind)
    else:
        thread.annotate(
            line,
            "subagent_activity",
            thread_id=child_id,
            activity=kind,
            agent_path=event.get("agent_path"),
        )


def read_collaboration(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read the item CollabAgentToolCall, which replaces the collab_* events."""
    call_id = as_text(event.get("id"))
    tool = event.get("tool")
    if tool == "spawn_agent":
        agent = next(iter(get_dicts(event, "receiver_agents")), {})
        facts = _drop_missing(
            spawn_reason=event.get("prompt"),
            role=agent.get("agent_role"),
            nickname=agent.get("agent_nickname"),
            **pick_fields(event, "model", "reasoning_effort"),
        )
        receivers = event.get("receiver_thread_ids")
        child_id = as_text(receivers[0]) if isinstance(receivers, list) and receivers else None
        _start_subagent(thread, line, child_id, call_id, facts)
    elif tool == "send_input":
        read_interaction_end(thread, line, {**event, "call_id": call_id})
    else:
        read_waiting_end(thread, line, {"statuses": event.get("agents_states")})


def read_waiting_end(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read collab_waiting_end: the subagents that have finished."""
    entries = event.get("agent_statuses")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and "thread_id" in entry:
            _end_subagent(thread, line, as_text(entry.get("thread_id")), entry.get("status"))
        else:
            thread.draft.note_omission("unknown-record", line.position, "status without an agent")
    statuses = event.get("statuses")
    if isinstance(statuses, dict):
        for child_id, status in statuses.items():
            _end_subagent(thread, line, child_id, status)


def read_close_end(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read collab_close_end; a subagent that was still running is shut down."""
    status = event.get("status")
    if status in _RUNNING:
        status = "shutdown"
    _end_subagent(thread, line, as_text(event.get("receiver_thread_id")), status)


def read_interaction_end(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Read collab_agent_interaction_end: a message to a subagent, unless a call holds it."""
    if as_text(event.get("call_id")) in thread.calls:
        return
    data = pick_fields(event, "prompt", "status", "receiver_thread_id")
    thread.annotate(line, "subagent_message", **data)


def _end_subagent(thread: Thread, line: Line, child_id: str | None, status: Any) -> None:
    if child_id not in thread.spans or status is None or status in _RUNNING:
        return
    data = {"status": status}
    if isinstance(status, dict):
        # A Rust enum with a value: {"completed": "the final message"}.
        name, result = next(iter(status.items()), (None, None))
        data = _drop_missing(status=name, result=result)
    span_id, start = thread.spans.pop(str(child_id))
    position = thread.draft.count
    thread.draft.end_span(span_id, data, ts=line.ts)
    thread.turns.assign(start, position)
