"""Which line of talk an event of Inspect AI belongs to: the sample's own, a subagent's, a
scorer's."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.inspect_ai.message_pool import Told
from open_token.formats.inspect_ai.messages import Thread
from open_token.formats.shared.fields import as_text
from open_token.jsontools.timestamps import to_utc

Body = dict[str, Any]
_APART = ("scorer", "subtask", "fork", "handoff", "branch")
_WRAPPINGS = ("tool", "scorers")
_DEEPEST = 64


@dataclass
class _Span:
    """A span of the log, and the line of talk in it once a model was called there."""

    id: str
    parent: str | None
    type: str
    name: str
    ts: str | None
    thread: Thread | None = None
    call: str | None = None
    """The id of the call that it serves."""


class Spans:
    """The spans of a sample; those that hold a line of talk of their own become spans of the
    record."""

    def __init__(self, draft: Draft, main: Thread) -> None:
        self._draft = draft
        self._main = main
        self._ids: dict[str, bytes] = {}
        main.told = Told(self._ids)
        self._spans: dict[str, _Span] = {}
        self._steps: list[_Span] = []
        """Spans of logs before 2025, which only nest."""
        self._threads: list[Thread] = [main]

    def all(self) -> list[Thread]:
        """Every line of talk there was."""
        return self._threads

    def begin(self, event: Body) -> None:
        """A span opens."""
        name = as_text(event.get("id")) or as_text(event.get("span_id"))
        if name:
            kind, title = as_text(event.get("type")) or "", as_text(event.get("name")) or ""
            self._spans[name] = _Span(
                name, as_text(event.get("parent_id")), kind, title, to_utc(event.get("timestamp"))
            )

    def end(self, event: Body) -> None:
        """A span closes."""
        span = self._spans.get(as_text(event.get("id")) or as_text(event.get("span_id")) or "")
        if span is not None:
            self._close(span, to_utc(event.get("timestamp")))

    def step(self, event: Body) -> None:
        """The older form of a span."""
        if event.get("action") == "begin":
            kind, title = as_text(event.get("type")) or "", as_text(event.get("name")) or ""
            self._steps.append(_Span("", None, kind, title, to_utc(event.get("timestamp"))))
        elif self._steps:
            self._close(self._steps.pop(), to_utc(event.get("timestamp")))

    def tool(self, event: Body) -> None:
        """A tool runs in a span; whoever speaks in there serves its call."""
        for name in (event.get("span_id"), event.get("agent_span_id")):
            span = self._spans.get(name) if isinstance(name, str) else None
            if span is not None and (span.type == "tool" or name == event.get("agent_span_id")):
                span.call = as_text(event.get("id"))

    def thread(self, event: Body, *, opens: bool = True) -> Thread:
        """The line of talk that an event belongs to, which opens with the first call of a model in
        it."""
        name = event.get("span_id")
        if isinstance(name, str) and name in self._spans:
            return self._thread_in(name, opens, 0)
        span = next((span for span in reversed(self._steps) if span.type in _APART), None)
        if span is None or not (span.thread or opens):
            return self._main
        return self._opened(span, self._main)

    def _thread_in(self, name: str | None, opens: bool, depth: int) -> Thread:
        span = self._apart(name, is_around=depth > 0)
        if span is None or depth > _DEEPEST:
            return self._main
        if span.thread is not None:
            return span.thread
        around = self._thread_in(span.parent, opens, depth + 1)
        return self._opened(span, around) if opens else around

    def _apart(self, name: str | None, is_around: bool) -> _Span | None:
        """The nearest span that has a line of talk of its own; the first agent of all has not, and
        what merely lies around an agent or a scorer has none either."""
        met: set[str] = set()
        while name is not None and name in self._spans and name not in met:
            met.add(name)
            span = self._spans[name]
            if span.type in _WRAPPINGS:
                if not is_around or span.thread is not None:
                    return span
            elif span.type in _APART or (span.type == "agent" and self._is_called(span)):
                return span
            name = span.parent
        return None

    def _is_called(self, agent: _Span) -> bool:
        """Whether an agent was called by another, or by a tool."""
        met: set[str] = set()
        name = agent.parent
        while name is not None and name in self._spans and name not in met:
            met.add(name)
            if self._spans[name].type in ("agent", "tool", "handoff"):
                return True
            name = self._spans[name].parent
        return agent.call is not None

    def _opened(self, span: _Span, parent: Thread) -> Thread:
        if span.thread is not None:
            return span.thread
        kind = (
            "scorer"
            if span.type.startswith("scorer")
            else "branch"
            if span.type == "branch"
            else "subagent"
        )
        data: Body = {"kind": kind}
        if span.name:
            data["name" if kind != "subagent" else "subagent_type"] = span.name
        call = span.call or self._call_around(span)
        span.thread = self._open(data, parent, parent.key(call), span.name or kind, span.ts, kind)
        return span.thread

    def _call_around(self, span: _Span) -> str | None:
        around = self._spans.get(span.parent or "")
        return around.call if around is not None and around.type == "tool" else None

    def _open(
        self,
        data: Body,
        parent: Thread,
        key: str | None,
        name: str,
        ts: str | None,
        kind: str = "subagent",
    ) -> Thread:
        draft = self._draft
        muted = parent.muted or (kind == "subagent" and draft.subagents != "inline")
        asker = parent.speaker if kind == "subagent" and parent.speaker else parent.runtime
        thread = Thread(
            draft,
            parent.runtime,
            Told(self._ids),
            name=name,
            asker=asker,
            visibility="internal",
            parent=parent,
            muted=muted,
        )
        if not parent.muted and not (muted and draft.subagents == "none"):
            thread.span = draft.start_span(data, asker, ts=ts, call=key)
        thread.served = key
        self._threads.append(thread)
        return thread

    def _close(self, span: _Span, ts: str | None) -> None:
        if span.thread is not None:
            self._end(span.thread, ts)

    def _end(self, thread: Thread, ts: str | None) -> None:
        if thread.is_over:
            return
        thread.is_over = True
        if thread.span:
            data = {"records": thread.records} if thread.muted else {}
            self._draft.end_span(thread.span, data, ts=ts, call=thread.served)
        elif self._draft.subagents == "none" and thread.records:
            self._draft.note_omission(
                "subagent", "events", "what a subagent did is left out (subagents=none)"
            )

    @contextlib.contextmanager
    def inside(self, data: Body, event: Body) -> Iterator[None]:
        """Events that stand inside another event, as in logs before 2025."""
        parent = self.thread(event)
        known = {name: value for name, value in data.items() if value}
        key = parent.key(as_text(event.get("id")))
        name = as_text(known.get("subagent_type")) or "subagent"
        span = _Span("", None, "subtask", name, to_utc(event.get("timestamp")))
        span.thread = self._open(known, parent, key, name, span.ts)
        self._steps.append(span)
        yield
        self._steps.remove(span)
        self._end(span.thread, to_utc(event.get("completed")))

    def close(self) -> None:
        """No event is left."""
        for thread in self._threads[1:]:
            self._end(thread, None)
