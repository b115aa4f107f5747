"""Grouping of spans into conversations, and the tree of the spans of one conversation."""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from open_token.formats.otel_genai.attributes import (
    get_kind,
    has_messages,
    is_model_related,
)
from open_token.formats.otel_genai.spans import Item, LogRecord, Span, Unusable, parse_spans
from open_token.formats.shared.fields import as_text
from open_token.model.document import Found
from open_token.sources.source import Source

_CONVERSATION_IDS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "thread.id",
)
_SPAN_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_LOG_SCOPES = ("scopeLogs", "scope_logs")


@dataclass(slots=True)
class Traces:
    """All spans of a source, and the conversation id of each trace."""

    spans: list[Span] = field(default_factory=list)
    conversation: dict[str, str] = field(default_factory=dict)
    unusable: list[Unusable] = field(default_factory=list)
    """What is no span, or belongs to no conversation."""
    is_one_run: bool = False
    """any-agent writes one file per run, even when its framework started several traces."""


_cache: WeakKeyDictionary[Source, Traces] = WeakKeyDictionary()


def load_traces(source: Source) -> Traces:
    """Return everything in the source, which is parsed once."""
    if source in _cache:
        return _cache[source]
    traces = Traces()
    logs: list[LogRecord] = []
    unit = "line" if source.shape in ("lines", "events") else "record"
    for number, record in source.records():
        if isinstance(record, dict) and "spans" in record:
            traces.is_one_run = True
        for item in parse_spans(record, f"{unit} {number}"):
            if isinstance(item, Span):
                traces.spans.append(item)
            elif isinstance(item, LogRecord):
                logs.append(item)
            else:
                traces.unusable.append(item)
    _attach_logs(traces, logs)
    _assign_conversations(traces)
    reason = "a span of a trace without a call of a model, an agent or a tool"
    for span in traces.spans:
        if span.trace_id not in traces.conversation:
            traces.unusable.append(Unusable(span.place, reason))
    _cache[source] = traces
    return traces


def _attach_logs(traces: Traces, logs: list[LogRecord]) -> None:
    """Newer instrumentations send messages as log records that name their span."""
    by_id = {(span.trace_id, span.id): span for span in traces.spans}
    for log in logs:
        span = by_id.get((log.trace_id, log.span_id))
        if span is None:
            traces.unusable.append(Unusable(log.place, "a log record without its span"))
        else:
            span.events.append(log.event)


def _assign_conversations(traces: Traces) -> None:
    """Assign each trace to the conversation that one of its spans names, else to one by itself."""
    for span in traces.spans:
        is_known = traces.is_one_run or span.trace_id in traces.conversation
        if not is_known and not is_model_related(span):
            continue
        conversation_id = _get_conversation_id(span)
        if conversation_id:
            traces.conversation[span.trace_id] = conversation_id
        else:
            traces.conversation.setdefault(span.trace_id, span.trace_id)
    if traces.is_one_run and traces.spans:
        # Spans are written as they end, so the last one is the outermost.
        outermost = traces.conversation[traces.spans[-1].trace_id]
        traces.conversation = dict.fromkeys(traces.conversation, outermost)


def _get_conversation_id(span: Span) -> str | None:
    for key in _CONVERSATION_IDS:
        value = as_text(span.attributes.get(key))
        if value:
            return value
    return None


def list_conversations(source: Source) -> list[Found]:
    """List the conversations in the order of their first span, with their start times."""
    traces = load_traces(source)
    earliest: dict[str, Span] = {}
    for span in traces.spans:
        conversation_id = traces.conversation.get(span.trace_id)
        if conversation_id is None:
            continue
        known = earliest.get(conversation_id)
        if known is None or _is_earlier(span, known):
            earliest[conversation_id] = span
    return [
        Found(conversation_id, title=span.name or None, started_at=span.started_at)
        for conversation_id, span in earliest.items()
    ]


def _is_earlier(span: Span, other: Span) -> bool:
    if span.start_order is None:
        return False
    return other.start_order is None or span.start_order < other.start_order


def find_owner(source: Source, value: Any) -> str | None:
    """Return the conversation of a batch; None when its spans belong to several, or to none."""
    conversations = load_traces(source).conversation
    items = _parse_bare_batch(value)
    if isinstance(value, dict):
        items += parse_spans(value, "")
    owners = {conversations.get(item.trace_id) for item in items if not isinstance(item, Unusable)}
    return owners.pop() if len(owners) == 1 else None


def _parse_bare_batch(value: Any) -> list[Item]:
    """Return the items of one batch that was taken out of its list."""
    items: list[Item] = []
    if not isinstance(value, dict):
        return items
    if any(name in value for name in _SPAN_SCOPES):
        items += parse_spans({"resourceSpans": [value]}, "")
    if any(name in value for name in _LOG_SCOPES):
        items += parse_spans({"resourceLogs": [value]}, "")
    return items


def build_tree(traces: Traces, conversation_id: str | None) -> list[Span]:
    """Return the root spans of a conversation, with children in the order in which they started.

    Spans are written when they end: a parent follows its children, and the parent that was still
    running when the file was written is missing.
    """
    spans = [span for span in traces.spans if span.trace_id in traces.conversation]
    if conversation_id is not None:
        spans = [span for span in spans if traces.conversation[span.trace_id] == conversation_id]
    by_id: dict[tuple[str, str], Span] = {}
    for span in spans:
        span.children = []
        by_id.setdefault((span.trace_id, span.id), span)
    roots = []
    for span in spans:
        parent = by_id.get((span.trace_id, span.parent_id)) if span.parent_id else None
        if parent is None or parent is span:
            roots.append(span)
        else:
            parent.children.append(span)
    visited: set[int] = set()
    for span in list(roots):
        _sort_descendants(span, visited)
    for span in spans:
        # Spans whose parents form a cycle are reachable from no root.
        if id(span) not in visited:
            roots.append(span)
            _sort_descendants(span, visited)
    if traces.is_one_run:
        roots = _adopt_orphans(roots)
    return sorted(roots, key=_get_start)


def _adopt_orphans(roots: list[Span]) -> list[Span]:
    """Put all spans of an any-agent run below its agent.

    With some frameworks the spans in between are not in the file.
    """
    agents = [span for span in roots if get_kind(span) == "agent"]
    if len(agents) != 1:
        return roots
    agent = agents[0]
    orphans = [span for span in roots if span is not agent]
    agent.children = sorted([*agent.children, *orphans], key=_get_start)
    return agents


def _sort_descendants(root: Span, visited: set[int]) -> None:
    visited.add(id(root))
    stack = [root]
    while stack:
        span = stack.pop()
        children = [child for child in span.children if id(child) not in visited]
        span.children = sorted(children, key=_get_start)
        visited.update(id(child) for child in span.children)
        stack += span.children


def _get_start(span: Span) -> int:
    return span.start_order or 0


def find_duplicates(roots: list[Span]) -> set[int]:
    """Return the `id()` of spans without messages that repeat a call recorded with messages.

    The SDK of Anthropic (2.9) records a span for each call besides that of the instrumentation.
    """
    duplicates: set[int] = set()
    stack: list[tuple[Span | None, list[Span]]] = [(None, roots)]
    while stack:
        parent, siblings = stack.pop()
        chats = [span for span in siblings if get_kind(span) == "chat"]
        bare = [span for span in chats if not has_messages(span) and not span.children]
        if bare and len(chats) == 1 and parent is not None and _is_recorded_chat(parent):
            duplicates.add(id(bare[0]))
        elif bare:
            duplicates |= _find_covered(chats)
        stack += ((span, span.children) for span in siblings if span.children)
    return duplicates


def _is_recorded_chat(span: Span) -> bool:
    return get_kind(span) == "chat" and has_messages(span)


def _find_covered(chats: list[Span]) -> set[int]:
    """Return spans without messages that ran within a sibling with messages, in start order."""
    covered: set[int] = set()
    recorded: Span | None = None
    for span in chats:
        if has_messages(span):
            recorded = span
        elif recorded is not None and _ends_within(span, recorded):
            covered.add(id(span))
    return covered


def _ends_within(span: Span, other: Span) -> bool:
    if span.trace_id != other.trace_id or not span.end_order or not other.end_order:
        return False
    return span.end_order <= other.end_order
