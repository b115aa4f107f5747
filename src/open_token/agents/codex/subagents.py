"""Subagents of a Codex thread: their spans, and their own rollouts told inside."""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from open_token.agents.codex.lines import Line, lines
from open_token.agents.codex.thread import Thread
from open_token.formats.shared.fields import as_text, get_dicts, parse_arguments, pick_fields
from open_token.sources.source import Source

_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_DEEPEST = 8
_LOOKAHEAD = 64
_RUNNING = ("pending_init", "pendingInit", "running", "interrupted")


def spawned(
    thread: Thread, line: Line, child_id: str | None, call_id: str | None, about: dict[str, Any]
) -> None:
    """A subagent begins: a span, with all it did when its rollout lies in the same tree of
    sessions."""
    draft = thread.draft
    if child_id is None or child_id in thread.spans or child_id in thread.told:
        return
    thread.told.add(child_id)
    if draft.subagents == "none":
        draft.note_omission("subagent", line.place, "a subagent and what it did")
        return
    source = (
        _rollout_of(thread.source, child_id)
        if draft.subagents == "inline" and thread.depth < _DEEPEST
        else None
    )
    child = _child(thread, child_id, about, source)
    if path := as_text(about.get("agent_path")):
        thread.paths |= {path.rpartition("/")[0]: thread, path: child}
    data = {"kind": "subagent", "thread_id": child_id, **about}
    if thread.span:
        data["parent_span"] = thread.span
    if source is None:
        data["reference"] = child_id
    child.span = draft.start_span(data, child.voices.assistant, ts=line.ts, call=call_id)
    thread.spans[child_id] = child.span, draft.count - 1
    if source is not None:
        thread.tell_child(child)


def _child(thread: Thread, child_id: str, about: dict[str, Any], source: Source | None) -> Thread:
    name = as_text(about.get("nickname")) or as_text(about.get("role")) or "subagent"
    return Thread(
        thread.draft,
        source or thread.source,
        depth=thread.depth + 1,
        name=name,
        provider=thread.provider,
        model=as_text(about.get("model")) or (_model_in(source) if source else None),
        id=child_id,
        user=thread.voices.assistant,
        told=thread.told,
        tell_child=thread.tell_child,
        parent=thread.source,
        paths=thread.paths,
    )


def _model_in(source: Source) -> str | None:
    """The model of a rollout's first turns, so that its agent has it from the first; copied turns
    stand before."""
    for record in reversed(source.sample):
        payload = (
            record.get("payload")
            if isinstance(record, dict) and record.get("type") == "turn_context"
            else None
        )
        if isinstance(payload, dict) and (model := as_text(payload.get("model"))):
            return model
    return None


def _rollout_of(source: Source, child_id: str) -> Source | None:
    """The rollout whose name ends with the id: in the same folder, else on another day of the same
    tree."""
    if not _ID.fullmatch(child_id):
        return None
    name = f"rollout-*{child_id}.jsonl"
    patterns = [name]
    if source.path is not None and source.path.parent.name.isdecimal():
        patterns += [f"../*/{name}", f"../../*/*/{name}", f"../../../*/*/*/{name}"]
    for pattern in patterns:
        if found := source.find_siblings(pattern):
            return found[0]
    return None


def own_lines(thread: Thread) -> Iterator[Line]:
    """The lines of a rollout; a forked subagent's without the history it was given, which is told
    already."""
    if thread.parent is None:
        return _with_base(thread, lines(thread.source), {thread.source.path})
    return _without_copy(
        thread, _named(lines(thread.source), f"subagent {thread.id} line"), lines(thread.parent)
    )


def _with_base(thread: Thread, own: Iterator[Line], known: set[Path | None]) -> Iterator[Line]:
    """The lines of a fork after those of the thread it goes on with, which it only names
    (history_base, 0.16x)."""
    for line in own:
        yield line
        base = line.payload.get("history_base")
        if line.kind == "session_meta" and isinstance(base, dict):
            yield from _base(thread, line, base, known)


def _base(
    thread: Thread, line: Line, base: dict[str, Any], known: set[Path | None]
) -> Iterator[Line]:
    name, end = as_text(base.get("thread_id")), base.get("end_ordinal_exclusive")
    source = _rollout_of(thread.source, name) if name and type(end) is int else None
    if source is None or source.path in known:
        thread.draft.note_omission(
            "history-elsewhere",
            line.place,
            "what was said before the fork, which is not in this file",
        )
        return
    told = _with_base(thread, _named(lines(source), f"thread {name} line"), known | {source.path})
    yield from takewhile(lambda other: other.record.get("ordinal", end) < end, told)


def _named(found: Iterator[Line], where: str) -> Iterator[Line]:
    for line in found:
        line.where = where
        yield line


def _without_copy(thread: Thread, child: Iterator[Line], parent: Iterator[Line]) -> Iterator[Line]:
    first = next(child, None)
    if first is None:
        return
    yield first
    if not first.payload.get("forked_from_id"):
        yield from child
        return
    held: list[Line] = []
    """Lines that differ and may still stand among copied ones: a state is written anew with each
    copy (0.16x)."""
    turns: set[str] = set()
    ahead: deque[Line] = deque()
    for line in child:
        turn = as_text(line.payload.get("turn_id"))
        if turn in turns or _is_next(line, ahead, parent):
            turns |= {turn} if turn else set()
            for copied in (*held, line):
                thread.draft.note_omission(
                    "copied-history", copied.place, "history that a subagent was given as a copy"
                )
            held = []
            continue
        held.append(line)
        if line.kind == "response_item":
            break
    yield from held
    yield from child


def _is_next(line: Line, ahead: deque[Line], parent: Iterator[Line]) -> bool:
    """Whether a line is among the next ones of the parent; those before it are passed over, all
    before a meta."""
    if line.kind == "session_meta":
        ahead.clear()
        return any(line.kind == other.kind and line.payload == other.payload for other in parent)
    ahead.extend(islice(parent, _LOOKAHEAD - len(ahead)))
    for place, other in enumerate(ahead):
        if line.kind == other.kind and line.payload == other.payload:
            for _ in range(place + 1):
                ahead.popleft()
            return True
    return False


def spawn_call(thread: Thread, call_id: str, item: dict[str, Any]) -> None:
    """A call that sends a subagent: what it asks for, until the output names the thread."""
    given = parse_arguments(item.get("arguments"))
    if isinstance(given, dict):
        prompt = given.get("message", given.get("prompt"))
        thread.spawns[call_id] = _about(
            prompt, given.get("agent_type"), None, given.get("model"), given.get("reasoning_effort")
        )


def spawn_output(thread: Thread, line: Line, call_id: str) -> None:
    """The output of such a call."""
    about = thread.spawns.pop(call_id)
    answer = parse_arguments(line.payload.get("output"))
    if isinstance(answer, dict):
        about |= pick_fields(answer, "nickname")
        spawned(thread, line, as_text(answer.get("agent_id")), call_id, about)


def spawn_end(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """collab_agent_spawn_end."""
    about = _about(
        event.get("prompt"),
        event.get("new_agent_role"),
        event.get("new_agent_nickname"),
        event.get("model"),
        event.get("reasoning_effort"),
    )
    spawned(thread, line, as_text(event.get("new_thread_id")), as_text(event.get("call_id")), about)


def _about(prompt: Any, role: Any, nickname: Any, model: Any, effort: Any) -> dict[str, Any]:
    said = {
        "spawn_reason": prompt,
        "role": role,
        "nickname": nickname,
        "model": model,
        "reasoning_effort": effort,
    }
    return {name: value for name, value in said.items() if value is not None}


def activity(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """sub_agent_activity of the second multi-agent version: a subagent begins, is written to, or is
    stopped."""
    child_id, kind = as_text(event.get("agent_thread_id")), as_text(event.get("kind"))
    if kind == "started":
        call_id = as_text(event.get("event_id")) or as_text(event.get("id"))
        about = pick_fields(event, "agent_path", "model", "reasoning_effort")
        spawned(thread, line, child_id, call_id, about)
    elif kind == "completed":
        _close(thread, line, child_id, kind)
    else:
        thread.note(
            line,
            "subagent_activity",
            thread_id=child_id,
            activity=kind,
            agent_path=event.get("agent_path"),
        )


def collaboration(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """The item CollabAgentToolCall, which says in one form what the older events of agents say."""
    call_id, receivers = as_text(event.get("id")), event.get("receiver_thread_ids")
    if event.get("tool") == "spawn_agent":
        agent = next(iter(get_dicts(event, "receiver_agents")), {})
        about = {"spawn_reason": event.get("prompt"), "role": agent.get("agent_role")}
        about |= {"nickname": agent.get("agent_nickname")} | pick_fields(
            event, "model", "reasoning_effort"
        )
        child_id = as_text(receivers[0]) if isinstance(receivers, list) and receivers else None
        spawned(thread, line, child_id, call_id, pick_fields(about, *about))
    elif event.get("tool") == "send_input":
        interaction(thread, line, {**event, "call_id": call_id})
    else:
        waited(thread, line, {"statuses": event.get("agents_states")})


def waited(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """collab_waiting_end: those that have finished."""
    entries = event.get("agent_statuses")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and "thread_id" in entry:
            _close(thread, line, as_text(entry.get("thread_id")), entry.get("status"))
        else:
            thread.draft.note_omission("unknown-record", line.place, "a status of no agent")
    statuses = event.get("statuses")
    for child_id, status in statuses.items() if isinstance(statuses, dict) else ():
        _close(thread, line, child_id, status)


def closed(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """collab_close_end."""
    status = event.get("status")
    _close(
        thread,
        line,
        as_text(event.get("receiver_thread_id")),
        "shutdown" if status in _RUNNING else status,
    )


def interaction(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """collab_agent_interaction_end: a message to a subagent; told where no call holds it."""
    if as_text(event.get("call_id")) in thread.calls:
        return
    data = pick_fields(event, "prompt", "status", "receiver_thread_id")
    thread.note(line, "subagent_message", **data)


def _close(thread: Thread, line: Line, child_id: str | None, status: Any) -> None:
    if child_id not in thread.spans or status is None or status in _RUNNING:
        return
    name, result = (
        next(iter(status.items()), (None, None)) if isinstance(status, dict) else (status, None)
    )
    data = {"status": name, "result": result}
    known = {key: value for key, value in data.items() if value is not None}
    span_id, place = thread.spans.pop(str(child_id))
    first = thread.draft.count
    thread.draft.end_span(span_id, known, ts=line.ts)
    thread.turns.belong(place, first)
