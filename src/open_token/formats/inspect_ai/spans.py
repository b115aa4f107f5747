"""Spans of a sample, and the thread that an event belongs to: the main one, a subagent, a scorer."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.inspect_ai.message_pool import MessageLog
from open_token.formats.inspect_ai.messages import Thread
from open_token.formats.shared.fields import as_text
from open_token.jsontools.timestamps import to_utc

Body = dict[str, Any]
_SEPARATE = ("scorer", "subtask", "fork", "handoff", "branch")
"""Types of spans that always have a thread."""
_WRAPPERS = ("tool", "scorers")
"""Types of spans that have a thread only if a model is called directly within them."""
_CALLERS = ("agent", "tool", "handoff")
_MAX_DEPTH = 64


@dataclass
class _Span:
    """A span of the log, with its thread once a model was called in it."""

    id: str
    parent: str | None
    type: str
    name: str
    ts: str | None
    thread: Thread | None = None
    call: str | None = None
    """The id of the call that the span executes."""


class SpanTree:
    """The spans of a sample; those with a thread become spans of the document."""

    def __init__(self, draft: Draft, main: Thread, hashes_by_id: dict[str, bytes]) -> None:
        self._draft = draft
        self._main = main
        self._hashes_by_id = hashes_by_id
        self._spans: dict[str, _Span] = {}
        self._steps: list[_Span] = []
        """Open spans of logs before 2025, which have no ids and only nest."""
        self.threads: list[Thread] = [main]

    def begin_span(self, event: Body) -> None:
        """Read a `span_begin` event."""
        span_id = _get_id(event)
        if span_id:
            self._spans[span_id] = _parse_span(event, span_id)

    def end_span(self, event: Body) -> None:
        """Read a `span_end` event."""
        span = self._spans.get(_get_id(event) or "")
        if span is not None and span.thread is not None:
            self._end_thread(span.thread, to_utc(event.get("timestamp")))

    def read_step(self, event: Body) -> None:
        """Read a `step` event, the older form of a span."""
        if event.get("action") == "begin":
            self._steps.append(_parse_span(event, ""))
        elif self._steps:
            span = self._steps.pop()
            if span.thread is not None:
                self._end_thread(span.thread, to_utc(event.get("timestamp")))

    def read_tool(self, event: Body) -> None:
        """Record which call the span of a tool, or of the agent in it, executes."""
        span = self._find_span(event.get("span_id"))
        if span is not None and span.type == "tool":
            span.call = as_text(event.get("id"))
        agent_span = self._find_span(event.get("agent_span_id"))
        if agent_span is not None:
            agent_span.call = as_text(event.get("id"))

    def _find_span(self, span_id: Any) -> _Span | None:
        return self._spans.get(span_id) if isinstance(span_id, str) else None

    def get_thread(self, event: Body, *, opens: bool = True) -> Thread:
        """Return the thread of an event; with `opens` it is started if it has not been yet."""
        span_id = event.get("span_id")
        if isinstance(span_id, str) and span_id in self._spans:
            return self._get_thread_in(span_id, opens, 0)
        span = next((step for step in reversed(self._steps) if step.type in _SEPARATE), None)
        if span is None or not (span.thread or opens):
            return self._main
        return self._open_span(span, self._main)

    def _get_thread_in(self, span_id: str | None, opens: bool, depth: int) -> Thread:
        span = self._find_separate(span_id, is_ancestor=depth > 0)
        if span is None or depth > _MAX_DEPTH:
            return self._main
        if span.thread is not None:
            return span.thread
        parent = self._get_thread_in(span.parent, opens, depth + 1)
        return self._open_span(span, parent) if opens else parent

    def _find_separate(self, span_id: str | None, is_ancestor: bool) -> _Span | None:
        """Return the nearest enclosing span that has a thread.

        The first agent is the main thread. A wrapper counts as an ancestor only if a model was
        called directly within it.
        """
        for span in self._walk_up(span_id):
            if span.type in _WRAPPERS:
                if not is_ancestor or span.thread is not None:
                    return span
            elif span.type in _SEPARATE or (span.type == "agent" and self._is_called(span)):
                return span
        return None

    def _walk_up(self, span_id: str | None) -> Iterator[_Span]:
        visited: set[str] = set()
        while span_id is not None and span_id in self._spans and span_id not in visited:
            visited.add(span_id)
            span = self._spans[span_id]
            yield span
            span_id = span.parent

    def _is_called(self, agent: _Span) -> bool:
        """Return whether an agent was called by another, or by a tool."""
        if any(span.type in _CALLERS for span in self._walk_up(agent.parent)):
            return True
        return agent.call is not None

    def _open_span(self, span: _Span, parent: Thread) -> Thread:
        if span.thread is not None:
            return span.thread
        kind = "subagent"
        if span.type.startswith("scorer"):
            kind = "scorer"
        elif span.type == "branch":
            kind = "branch"
        data: Body = {"kind": kind}
        if span.name:
            data["subagent_type" if kind == "subagent" else "name"] = span.name
        key = parent.find_call(span.call or self._get_enclosing_call(span))
        span.thread = self._open_thread(data, parent, key, span.name or kind, span.ts)
        return span.thread

    def _get_enclosing_call(self, span: _Span) -> str | None:
        parent = self._spans.get(span.parent or "")
        if parent is None or parent.type != "tool":
            return None
        return parent.call

    def _open_thread(
        self, data: Body, parent: Thread, key: str | None, name: str, ts: str | None
    ) -> Thread:
        draft = self._draft
        is_subagent = data["kind"] == "subagent"
        is_muted = parent.is_muted or (is_subagent and draft.subagents != "inline")
        asker = parent.runtime
        if is_subagent and parent.speaker:
            asker = parent.speaker
        thread = Thread(
            draft,
            parent.runtime,
            MessageLog(self._hashes_by_id),
            name=name,
            asker=asker,
            visibility="internal",
            parent=parent,
            is_muted=is_muted,
            caller=key,
        )
        is_left_out = parent.is_muted or (is_muted and draft.subagents == "none")
        if not is_left_out:
            thread.span = draft.start_span(data, asker, ts=ts, call=key)
        self.threads.append(thread)
        return thread

    def _end_thread(self, thread: Thread, ts: str | None) -> None:
        if thread.has_ended:
            return
        thread.has_ended = True
        if thread.span:
            data = {"records": thread.records} if thread.is_muted else {}
            self._draft.end_span(thread.span, data, ts=ts, call=thread.caller)
        elif self._draft.subagents == "none" and thread.records:
            self._draft.note_omission(
                "subagent", "events", "what a subagent did is left out (subagents=none)"
            )

    @contextlib.contextmanager
    def enter_nested(self, data: Body, event: Body) -> Iterator[None]:
        """Enter the subagent whose events are nested in an event, as in logs before 2025."""
        parent = self.get_thread(event)
        facts = {name: value for name, value in data.items() if value}
        key = parent.find_call(as_text(event.get("id")))
        name = as_text(facts.get("subagent_type")) or "subagent"
        span = _Span("", None, "subtask", name, to_utc(event.get("timestamp")))
        thread = self._open_thread(facts, parent, key, name, span.ts)
        span.thread = thread
        self._steps.append(span)
        yield
        self._steps.remove(span)
        self._end_thread(thread, to_utc(event.get("completed")))

    def close(self) -> None:
        """End the threads that are still open."""
        for thread in self.threads[1:]:
            self._end_thread(thread, None)


def _get_id(event: Body) -> str | None:
    return as_text(event.get("id")) or as_text(event.get("span_id"))


def _parse_span(event: Body, span_id: str) -> _Span:
    return _Span(
        span_id,
        as_text(event.get("parent_id")) if span_id else None,
        as_text(event.get("type")) or "",
        as_text(event.get("name")) or "",
        to_utc(event.get("timestamp")),
    )
