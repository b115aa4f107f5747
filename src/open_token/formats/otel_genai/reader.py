"""Tells traces of GenAI calls: the tree of spans is walked, and of every history only what is new
is told."""

from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.otel_genai import traces
from open_token.formats.otel_genai.attributes import (
    agent_of,
    facts_of,
    kind_of,
    model_of,
    tool_call,
    tool_output,
    unread,
    usage_of,
)
from open_token.formats.otel_genai.messages import answered, asked, gone_through, is_other
from open_token.formats.otel_genai.quirks import twins
from open_token.formats.otel_genai.spans import NAMELESS, Span
from open_token.formats.otel_genai.traces import Traces, roots_of, traces_of
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.messages import Message, ToolResultPart
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.model.document import Event, Found
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation in the order in which things began."""
    draft.conversation["source_runtime"] = "other"
    draft.without_thoughts = "unknown"
    made = traces_of(source)
    roots = roots_of(made, source.conversation)
    if not roots:
        raise InputError(
            "the trace has no span of a model, an agent or a tool",
            where=source.name,
            help="record the spans of a GenAI instrumentation (attributes that begin with gen_ai.)",
            code="input.no-genai",
        )
    for odd in made.odd:
        draft.note_omission("other-record", odd.place, odd.what)
    _conversation(draft, made, roots, source)
    _Spans(draft).tell(roots)
    if source.shape == "document" and isinstance(source.document, dict):
        final = source.document.get("final_output")
        if final is not None:
            draft.add_annotation({"kind": "final_output", "output": final})


def _conversation(draft: Draft, made: Traces, roots: list[Span], source: Source) -> None:
    known = set(made.conversation.values())
    if source.conversation or len(known) == 1:
        draft.conversation["id"] = source.conversation or known.pop()
    if roots[0].began:
        draft.conversation["started_at"] = roots[0].began
    resource = next((span.resource for span in made.spans if span.resource), {})
    names = ("service.name", "service.version", "service.namespace")
    data = {
        key.partition(".")[2]: resource[key] for key in names if isinstance(resource.get(key), str)
    }
    if data and data.get("name") != "unknown_service":
        draft.add_annotation({"kind": "context", "service": data})


@dataclass(slots=True)
class _Around:
    """What a span stands in: the span of a subagent, what counts as one history, who speaks."""

    span: str | None = None
    scope: object = None
    agent: str = "assistant"
    instance: str | None = None
    model: tuple[str | None, str | None] = (None, None)
    """The model that the agent was asked to use, and its provider."""
    actor: str | None = None
    user: str | None = None
    depth: int = 0
    waiting: list[Message] = field(default_factory=list)
    """What the agent was given, until its first model has heard its own prompt."""


class _Spans:
    """Walks the trees of spans."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._talk = HistoryWriter(draft)
        self._around = [_Around()]
        self._calls: dict[int, tuple[str, Any, int]] = {}
        self._unknown: list[Any] = []
        self._tools: set[str] = set()
        self._twins: set[int] = set()

    def tell(self, roots: list[Span]) -> None:
        self._twins = twins(roots)
        outer = _outer(roots, self._twins)
        stack = [(root, True) for root in reversed(roots)]
        while stack:
            span, enters = stack.pop()
            if not enters:
                self._leave(span, id(span) in outer)
                continue
            stack.append((span, False))
            if self._enter(span, id(span) in outer):
                stack += ((child, True) for child in reversed(span.children))

    def _enter(self, span: Span, is_outer: bool) -> bool:
        """Tell how a span begins; gives whether what is in it is told too."""
        kind = kind_of(span)
        if id(span) in self._twins:
            self._draft.note_omission(
                "other-span",
                span.place,
                "a span of the client beside the same call of its instrumentation",
            )
            return False
        if kind != "other":
            self._note_rest(span)
        if kind == "agent":
            return self._agent(span)
        if kind == "chat":
            self._hear(span)
            if not is_outer:
                self._answer(span)
        elif kind == "tool":
            self._tool(span)
        else:
            self._draft.note_omission(
                "other-span", span.place, "a span that is no call of a model, an agent or a tool"
            )
        return True

    def _note_rest(self, span: Span) -> None:
        """What a span holds beside the talk."""
        more, words = unread(span)
        if more:
            self._draft.note_omission(
                "attributes", span.place, "attributes about settings, timing and the runtime"
            )
        for _ in range(words):
            self._draft.note_omission(
                "unknown-attribute", span.place, "an attribute with text that is not known"
            )
        for moment in span.moments:
            if is_other(moment) or any(name.startswith(NAMELESS) for name in moment.attributes):
                self._draft.note_omission(
                    "other-event",
                    span.place,
                    "an event of a span, or a part of one, that is no message",
                )

    def _leave(self, span: Span, is_outer: bool) -> None:
        if id(span) in self._twins:
            return
        kind = kind_of(span)
        if kind == "tool":
            self._tool_done(span)
        elif kind == "agent":
            self._agent_done(span)
        elif kind == "chat" and is_outer:
            self._talk.add_history(self._said(answered, span), self._stage(span, span.ended))
        if kind in ("agent", "chat"):
            self._error(span)

    def _stage(self, span: Span, ts: str | None) -> MessageContext:
        around = self._around[-1]
        if around.actor is None:
            model, provider = model_of(span) if kind_of(span) != "tool" else (None, None)
            around.actor = self._actor(
                around, model or around.model[0], provider or around.model[1]
            )
        return MessageContext(
            around.actor, span.place, span=around.span, ts=ts, scope=around.scope, user=around.user
        )

    def _actor(self, around: _Around, model: str | None, provider: str | None) -> str:
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor(
            "model", around.agent, provider=provider, model=model, instance_id=around.instance
        )

    def _said(self, find: Any, span: Span) -> Any:
        """The messages of a span; what is none is noted."""
        found = find(span, self._unknown)
        for _ in self._unknown:
            self._draft.note_omission("unknown-message", span.place, "a message without a role")
        self._unknown.clear()
        return found

    def _hear(self, span: Span) -> None:
        model, provider = model_of(span)
        around = self._around[-1]
        around.actor = self._actor(around, model, provider)
        self._talk.add_history(self._said(asked, span), self._stage(span, None))
        self._wait_no_more(span)

    def _wait_no_more(self, span: Span) -> None:
        around = self._around[-1]
        waiting, around.waiting = around.waiting, []
        if waiting:
            self._talk.add_history(waiting, self._stage(span, None))

    def _answer(self, span: Span) -> None:
        stage = self._stage(span, span.ended)
        stage.usage = usage_of(span)
        if stage.usage and stage.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"
        event: Event | None = None
        for message in self._said(answered, span):
            event = self._talk.add_message(message, stage) or event
        self._talk.close(stage)
        self._talk.add_facts(event, stage, facts_of(span))

    def _agent(self, span: Span) -> bool:
        name, instance = agent_of(span)
        outer = self._around[-1]
        made = _Around(
            outer.span, outer.scope, name, instance, model_of(span), depth=outer.depth + 1
        )
        self._around.append(made)
        if outer.depth == 0:
            made.waiting = self._said(asked, span)
            self._described(span)
            return True
        if self._draft.subagents == "none":
            self._draft.note_omission(
                "subagent", span.place, "what a subagent did is left out (subagents=none)"
            )
            return False
        made.scope = span.id
        model, provider = made.model
        made.actor = self._actor(made, model, provider)
        data: dict[str, Any] = {"kind": "subagent", "name": name}
        data |= {
            key: value
            for key, value in (("model", model), ("reason", span.attributes.get(_REASON)))
            if value
        }
        data |= {"reference": span.id} if self._draft.subagents == "reference" else {}
        data |= {"parent_span": outer.span} if outer.span else {}
        made.span = self._draft.start_span(
            data, made.actor, ts=span.began, call=self._calling(outer.depth)
        )
        made.user = outer.actor
        if self._draft.subagents == "inline":
            made.waiting = self._said(asked, span)
        return self._draft.subagents == "inline"

    def _calling(self, depth: int) -> str | None:
        """The call that a subagent serves: that of the tool around it, if its own agent made it."""
        key, _, made_at = next(reversed(self._calls.values()), ("", None, -1))
        return key if made_at == depth else None

    def _described(self, span: Span) -> None:
        about = as_text(span.attributes.get(_REASON))
        if about and about != "No description.":
            self._draft.add_annotation(
                {"kind": "context", "agent": agent_of(span)[0], "description": about}
            )

    def _agent_done(self, span: Span) -> None:
        made = self._around[-1]
        if made.span == self._around[-2].span and made.depth > 1:
            self._around.pop()
            return
        if made.depth == 1 or self._draft.subagents == "inline":
            self._wait_no_more(span)
            stage = self._stage(span, span.ended)
            self._talk.add_history(
                self._said(gone_through, span) or self._said(answered, span), stage
            )
            if not span.children:
                stage.usage = usage_of(span)
                self._talk.close(stage)
        if made.depth > 1 and made.span:
            self._draft.end_span(made.span, ts=span.ended, call=self._calling(made.depth - 1))
        self._around.pop()

    def _tool(self, span: Span) -> None:
        self._wait_no_more(span)
        given = tool_call(span)
        self._offered(span, given.tool)
        known = self._talk.find_open_call(given)
        if known is None:
            stage = self._stage(span, span.began)
            known = self._talk.add_tool_call(given, stage), given.arguments
            self._talk.mark_seen(given, stage, "assistant")
        self._calls[id(span)] = (*known, self._around[-1].depth)

    def _offered(self, span: Span, tool: str) -> None:
        """What the model was told of a tool, once."""
        about = as_text(span.attributes.get("gen_ai.tool.description"))
        if about and tool not in self._tools:
            self._tools.add(tool)
            data = {"kind": "tools", "names": [tool], "descriptions": {tool: about}}
            self._draft.add_annotation(data, span=self._around[-1].span)

    def _tool_done(self, span: Span) -> None:
        key, first, _ = self._calls.pop(id(span))
        given, output = tool_call(span), tool_output(span)
        stage = self._stage(span, span.ended)
        facts: dict[str, Any] = {}
        if given.arguments != first and given.arguments:
            facts["arguments"] = given.arguments
        if span.error:
            facts |= {"is_error": True, "error": span.error}
        if output is None:
            if not span.error:
                self._draft.note_omission(
                    "no-output", span.place, "a tool's span without its output"
                )
                return
            output = span.error
        native = given.id if given.id else None if key.startswith("\0") else key
        if given.id and given.id != key:
            facts["native_call_id"] = given.id
        self._talk.mark_seen(ToolResultPart(native, output, given.tool), stage)
        self._draft.add_tool_result(
            key, output, ts=span.ended, span=stage.span, tool=given.tool, facts=facts or None
        )

    def _error(self, span: Span) -> None:
        around = self._around[-1]
        thrown = [moment.attributes for moment in span.moments if moment.name == "exception"]
        if not span.error and not thrown:
            return
        data: dict[str, Any] = {"kind": "error"} | ({"error": span.error} if span.error else {})
        names = (("exception", "exception.type"), ("message", "exception.message"))
        for given in thrown[-1:]:
            data |= {name: given[key] for name, key in names if isinstance(given.get(key), str)}
        self._draft.add_annotation(data, actor=around.actor, ts=span.ended, span=around.span)


_REASON = "gen_ai.agent.description"


def _outer(roots: list[Span], without: set[int]) -> set[int]:
    """The calls of a model inside which other calls of it stand: a loop around the steps that it
    made."""
    order: list[Span] = []
    stack = list(roots)
    while stack:
        span = stack.pop()
        order.append(span)
        stack += span.children
    asks: set[int] = set()
    found: set[int] = set()
    for span in reversed(order):
        below = any(id(child) in asks for child in span.children)
        if below and kind_of(span) == "chat":
            found.add(id(span))
        if below or (kind_of(span) == "chat" and id(span) not in without):
            asks.add(id(span))
    return found


def list_conversations(source: Source) -> list[Found]:
    """List the conversations that the spans name, or else their traces."""
    return traces.conversations(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a batch of spans belongs to."""
    return traces.owner(source, value)
