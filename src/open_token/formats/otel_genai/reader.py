"""Read traces of GenAI calls: walk the tree of spans, and add of each history only what is new."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.otel_genai import traces as trace_index
from open_token.formats.otel_genai.attributes import (
    count_unread,
    get_agent,
    get_answer_facts,
    get_kind,
    get_model,
    get_tool_call,
    get_tool_output,
    get_usage,
)
from open_token.formats.otel_genai.messages import (
    is_message_event,
    read_input,
    read_output,
    read_whole_run,
)
from open_token.formats.otel_genai.spans import UNNAMED_PREFIX, Span
from open_token.formats.otel_genai.traces import (
    Traces,
    build_tree,
    find_duplicates,
    load_traces,
)
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.messages import Message, ToolResultPart
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.model.document import Event, Found
from open_token.sources.source import Source

_SERVICE_ATTRIBUTES = ("service.name", "service.version", "service.namespace")
_AGENT_DESCRIPTION = "gen_ai.agent.description"


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft, in the order in which spans started."""
    draft.conversation["source_runtime"] = "other"
    draft.without_thoughts = "unknown"
    traces = load_traces(source)
    roots = build_tree(traces, source.conversation)
    if not roots:
        raise InputError(
            "the trace has no span of a model, an agent or a tool",
            where=source.name,
            help="record the spans of a GenAI instrumentation (attributes that begin with gen_ai.)",
            code="input.no-genai",
        )
    for item in traces.unusable:
        draft.note_omission("other-record", item.place, item.reason)
    _read_conversation_facts(draft, traces, roots, source)
    _SpanReader(draft).read(roots)
    if source.shape == "document" and isinstance(source.document, dict):
        # any-agent repeats the result of the run at the top of its file.
        final_output = source.document.get("final_output")
        if final_output is not None:
            draft.add_annotation({"kind": "final_output", "output": final_output})


def list_conversations(source: Source) -> list[Found]:
    """List the conversations that the spans name, or else their traces."""
    return trace_index.list_conversations(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a batch of spans belongs to."""
    return trace_index.find_owner(source, value)


def _read_conversation_facts(
    draft: Draft, traces: Traces, roots: list[Span], source: Source
) -> None:
    ids = set(traces.conversation.values())
    if source.conversation:
        draft.conversation["id"] = source.conversation
    elif len(ids) == 1:
        draft.conversation["id"] = ids.pop()
    if roots[0].started_at:
        draft.conversation["started_at"] = roots[0].started_at
    resource = next((span.resource for span in traces.spans if span.resource), {})
    service = {}
    for key in _SERVICE_ATTRIBUTES:
        if isinstance(resource.get(key), str):
            service[key.partition(".")[2]] = resource[key]
    if service and service.get("name") != "unknown_service":
        draft.add_annotation({"kind": "context", "service": service})


@dataclass(slots=True)
class _Scope:
    """The agent that the spans being read belong to."""

    span_id: str | None = None
    """The span of the document, where the agent is a subagent."""
    history: object = None
    """Messages are repeated within one history; a subagent has a history of its own."""
    agent: str = "assistant"
    instance: str | None = None
    model: tuple[str | None, str | None] = (None, None)
    """The model that the agent was configured with, and its provider."""
    actor: str | None = None
    user: str | None = None
    depth: int = 0
    pending: list[Message] = field(default_factory=list)
    """What the agent was given, until its first model call has recorded its own prompt."""


@dataclass(slots=True)
class _OpenCall:
    """A tool call whose span is being read."""

    key: str
    arguments: Any
    """The arguments that the model gave."""
    depth: int


class _SpanReader:
    """Walks the trees of spans and adds what they hold to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._history = HistoryWriter(draft)
        self._scopes = [_Scope()]
        self._calls: dict[int, _OpenCall] = {}
        self._described_tools: set[str] = set()
        self._duplicates: set[int] = set()

    def read(self, roots: list[Span]) -> None:
        self._duplicates = find_duplicates(roots)
        loops = _find_loops(roots, self._duplicates)
        # Depth first without recursion: a span is visited before and after its children.
        stack = [(root, True) for root in reversed(roots)]
        while stack:
            span, is_start = stack.pop()
            if not is_start:
                self._end(span, id(span) in loops)
                continue
            stack.append((span, False))
            if self._start(span, id(span) in loops):
                stack += ((child, True) for child in reversed(span.children))

    def _start(self, span: Span, is_loop: bool) -> bool:
        """Read the start of a span; return whether its children are read too."""
        if id(span) in self._duplicates:
            self._draft.note_omission(
                "other-span",
                span.place,
                "a span of the client library for a call that the instrumentation recorded",
            )
            return False
        kind = get_kind(span)
        if kind == "other":
            self._draft.note_omission(
                "other-span", span.place, "a span that is no call of a model, an agent or a tool"
            )
            return True
        self._note_unread(span)
        if kind == "agent":
            return self._start_agent(span)
        if kind == "tool":
            self._start_tool(span)
            return True
        self._read_prompt(span)
        if not is_loop:
            self._read_answer(span)
        return True

    def _end(self, span: Span, is_loop: bool) -> None:
        if id(span) in self._duplicates:
            return
        kind = get_kind(span)
        if kind == "tool":
            self._end_tool(span)
        elif kind == "agent":
            self._end_agent(span)
            self._read_error(span)
        elif kind == "chat":
            if is_loop:
                messages = self._get_messages(read_output, span)
                self._history.add_history(messages, self._build_stage(span, span.ended_at))
            self._read_error(span)

    def _note_unread(self, span: Span) -> None:
        """Note the attributes and events of a span that are not part of the conversation."""
        has_technical, texts = count_unread(span)
        if has_technical:
            self._draft.note_omission(
                "attributes", span.place, "attributes about settings, timing and the runtime"
            )
        for _ in range(texts):
            self._draft.note_omission(
                "unknown-attribute", span.place, "an unknown attribute that holds text"
            )
        for event in span.events:
            has_unnamed = any(name.startswith(UNNAMED_PREFIX) for name in event.attributes)
            if has_unnamed or not is_message_event(event):
                self._draft.note_omission(
                    "other-event", span.place, "an event, or a part of one, that is no message"
                )

    def _build_stage(self, span: Span, ts: str | None) -> MessageContext:
        scope = self._scopes[-1]
        if scope.actor is None:
            model, provider = scope.model
            if get_kind(span) != "tool":
                span_model, span_provider = get_model(span)
                model = span_model or model
                provider = span_provider or provider
            scope.actor = self._get_actor(scope, model, provider)
        return MessageContext(
            scope.actor,
            span.place,
            span=scope.span_id,
            ts=ts,
            scope=scope.history,
            user=scope.user,
        )

    def _get_actor(self, scope: _Scope, model: str | None, provider: str | None) -> str:
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor(
            "model", scope.agent, provider=provider, model=model, instance_id=scope.instance
        )

    def _get_messages(
        self, read_messages: Callable[[Span, list[Any]], list[Message]], span: Span
    ) -> list[Message]:
        """Return messages of a span; note what is none."""
        unknown: list[Any] = []
        messages = read_messages(span, unknown)
        for _ in unknown:
            self._draft.note_omission("unknown-message", span.place, "a message without a role")
        return messages

    def _read_prompt(self, span: Span) -> None:
        model, provider = get_model(span)
        scope = self._scopes[-1]
        scope.actor = self._get_actor(scope, model, provider)
        self._history.add_history(
            self._get_messages(read_input, span), self._build_stage(span, None)
        )
        self._add_pending(span)

    def _add_pending(self, span: Span) -> None:
        scope = self._scopes[-1]
        pending = scope.pending
        scope.pending = []
        if pending:
            self._history.add_history(pending, self._build_stage(span, None))

    def _read_answer(self, span: Span) -> None:
        stage = self._build_stage(span, span.ended_at)
        stage.usage = get_usage(span)
        if stage.usage and stage.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"
        event: Event | None = None
        for message in self._get_messages(read_output, span):
            event = self._history.add_message(message, stage) or event
        self._history.close(stage)
        self._history.add_facts(event, stage, get_answer_facts(span))

    def _start_agent(self, span: Span) -> bool:
        name, instance = get_agent(span)
        outer = self._scopes[-1]
        scope = _Scope(
            outer.span_id,
            outer.history,
            name,
            instance,
            get_model(span),
            depth=outer.depth + 1,
        )
        self._scopes.append(scope)
        if outer.depth == 0:
            scope.pending = self._get_messages(read_input, span)
            self._annotate_description(span)
            return True
        if self._draft.subagents == "none":
            self._draft.note_omission(
                "subagent", span.place, "what a subagent did is left out (subagents=none)"
            )
            return False
        self._start_subagent(span, scope, outer)
        if self._draft.subagents != "inline":
            return False
        scope.pending = self._get_messages(read_input, span)
        return True

    def _start_subagent(self, span: Span, scope: _Scope, outer: _Scope) -> None:
        scope.history = span.id
        model, provider = scope.model
        scope.actor = self._get_actor(scope, model, provider)
        scope.user = outer.actor
        data: dict[str, Any] = {"kind": "subagent", "name": scope.agent}
        if model:
            data["model"] = model
        if span.attributes.get(_AGENT_DESCRIPTION):
            data["reason"] = span.attributes[_AGENT_DESCRIPTION]
        if self._draft.subagents == "reference":
            data["reference"] = span.id
        if outer.span_id:
            data["parent_span"] = outer.span_id
        call = self._find_caller(outer.depth)
        scope.span_id = self._draft.start_span(data, scope.actor, ts=span.started_at, call=call)

    def _find_caller(self, depth: int) -> str | None:
        """Return the call of the innermost open tool, if the agent at this depth made it."""
        if not self._calls:
            return None
        call = next(reversed(self._calls.values()))
        return call.key if call.depth == depth else None

    def _annotate_description(self, span: Span) -> None:
        description = as_text(span.attributes.get(_AGENT_DESCRIPTION))
        # any-agent writes this default.
        if description and description != "No description.":
            self._draft.add_annotation(
                {"kind": "context", "agent": get_agent(span)[0], "description": description}
            )

    def _end_agent(self, span: Span) -> None:
        scope = self._scopes[-1]
        is_subagent = scope.depth > 1
        if is_subagent and scope.span_id == self._scopes[-2].span_id:
            # A subagent that was left out.
            self._scopes.pop()
            return
        if not is_subagent or self._draft.subagents == "inline":
            self._add_pending(span)
            stage = self._build_stage(span, span.ended_at)
            messages = self._get_messages(read_whole_run, span)
            if not messages:
                messages = self._get_messages(read_output, span)
            self._history.add_history(messages, stage)
            if not span.children:
                stage.usage = get_usage(span)
                self._history.close(stage)
        if is_subagent and scope.span_id:
            call = self._find_caller(scope.depth - 1)
            self._draft.end_span(scope.span_id, ts=span.ended_at, call=call)
        self._scopes.pop()

    def _start_tool(self, span: Span) -> None:
        self._add_pending(span)
        call = get_tool_call(span)
        self._annotate_tool(span, call.tool)
        known = self._history.find_open_call(call)
        if known is None:
            stage = self._build_stage(span, span.started_at)
            known = self._history.add_tool_call(call, stage), call.arguments
            self._history.mark_seen(call, stage, "assistant")
        key, arguments = known
        self._calls[id(span)] = _OpenCall(key, arguments, self._scopes[-1].depth)

    def _annotate_tool(self, span: Span, tool: str) -> None:
        """Add the description of a tool, once."""
        description = as_text(span.attributes.get("gen_ai.tool.description"))
        if not description or tool in self._described_tools:
            return
        self._described_tools.add(tool)
        data = {"kind": "tools", "names": [tool], "descriptions": {tool: description}}
        self._draft.add_annotation(data, span=self._scopes[-1].span_id)

    def _end_tool(self, span: Span) -> None:
        open_call = self._calls.pop(id(span))
        key = open_call.key
        call = get_tool_call(span)
        output = get_tool_output(span)
        stage = self._build_stage(span, span.ended_at)
        facts: dict[str, Any] = {}
        if call.arguments and call.arguments != open_call.arguments:
            facts["arguments"] = call.arguments
        if span.error:
            facts |= {"is_error": True, "error": span.error}
        if output is None:
            if not span.error:
                self._draft.note_omission(
                    "no-output", span.place, "a span of a tool without its output"
                )
                return
            output = span.error
        native_id = call.id
        if not native_id and not key.startswith("\0"):
            native_id = key
        if call.id and call.id != key:
            facts["native_call_id"] = call.id
        self._history.mark_seen(ToolResultPart(native_id or None, output, call.tool), stage)
        self._draft.add_tool_result(
            key,
            output,
            ts=span.ended_at,
            span=stage.span,
            tool=call.tool,
            facts=facts or None,
        )

    def _read_error(self, span: Span) -> None:
        exceptions = [event.attributes for event in span.events if event.name == "exception"]
        if not span.error and not exceptions:
            return
        data: dict[str, Any] = {"kind": "error"}
        if span.error:
            data["error"] = span.error
        if exceptions:
            attributes = exceptions[-1]
            for name, key in (("exception", "exception.type"), ("message", "exception.message")):
                if isinstance(attributes.get(key), str):
                    data[name] = attributes[key]
        scope = self._scopes[-1]
        self._draft.add_annotation(data, actor=scope.actor, ts=span.ended_at, span=scope.span_id)


def _find_loops(roots: list[Span], duplicates: set[int]) -> set[int]:
    """Return the `id()` of model calls that contain others: loops around the steps they made."""
    order: list[Span] = []
    stack = list(roots)
    while stack:
        span = stack.pop()
        order.append(span)
        stack += span.children
    calling: set[int] = set()
    loops: set[int] = set()
    # Children come before their parents in this direction.
    for span in reversed(order):
        is_chat = get_kind(span) == "chat"
        contains_calls = any(id(child) in calling for child in span.children)
        if contains_calls and is_chat:
            loops.add(id(span))
        if contains_calls or (is_chat and id(span) not in duplicates):
            calling.add(id(span))
    return loops
