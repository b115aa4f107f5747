"""Which spans of a file make one conversation, and the tree that they are."""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from open_token.formats.otel_genai.attributes import is_talk, kind_of
from open_token.formats.otel_genai.spans import Log, Odd, Span, spans_in
from open_token.formats.shared.fields import as_text
from open_token.model.document import Found
from open_token.sources.source import Source

_NAMES = ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "thread.id")


@dataclass(slots=True)
class Traces:
    """All spans of a source, and the conversation of each trace."""

    spans: list[Span] = field(default_factory=list)
    conversation: dict[str, str] = field(default_factory=dict)
    odd: list[Odd] = field(default_factory=list)
    """What is no span of these traces, and belongs to none of them."""
    is_one_run: bool = False
    """any-agent writes one file for one run, also when its framework began several traces."""


_known: WeakKeyDictionary[Source, Traces] = WeakKeyDictionary()


def traces_of(source: Source) -> Traces:
    """Everything in the source, read once."""
    if source in _known:
        return _known[source]
    made = Traces()
    logs: list[Log] = []
    unit = "line" if source.shape in ("lines", "events") else "record"
    for number, record in source.records():
        made.is_one_run = made.is_one_run or (isinstance(record, dict) and "spans" in record)
        for item in spans_in(record, f"{unit} {number}"):
            if isinstance(item, Span):
                made.spans.append(item)
            elif isinstance(item, Log):
                logs.append(item)
            else:
                made.odd.append(item)
    by_id = {(span.trace, span.id): span for span in made.spans}
    for log in logs:
        if (log.trace, log.span) in by_id:
            by_id[log.trace, log.span].moments.append(log.moment)
        else:
            made.odd.append(Odd(log.place, "a log record without its span"))
    _name(made)
    what = "a span of a trace without a call of a model, an agent or a tool"
    made.odd += (
        Odd(span.place, what) for span in made.spans if span.trace not in made.conversation
    )
    _known[source] = made
    return made


def _name(made: Traces) -> None:
    """A trace belongs to the conversation that one of its spans names; else it is one of its
    own."""
    for span in made.spans:
        if not made.is_one_run and not is_talk(span) and span.trace not in made.conversation:
            continue
        named = next((name for key in _NAMES if (name := as_text(span.attributes.get(key)))), None)
        if named:
            made.conversation[span.trace] = named
        else:
            made.conversation.setdefault(span.trace, span.trace)
    if made.is_one_run and made.spans:
        first = made.conversation[made.spans[-1].trace]
        made.conversation = dict.fromkeys(made.conversation, first)


def conversations(source: Source) -> list[Found]:
    """The conversations in the order of their first span, with when they began."""
    made = traces_of(source)
    begun: dict[str, Span] = {}
    for span in made.spans:
        name = made.conversation.get(span.trace)
        if name is None:
            continue
        known = begun.get(name)
        if known is None or (
            span.start is not None and (known.start is None or span.start < known.start)
        ):
            begun[name] = span
    return [
        Found(name, title=span.name or None, started_at=span.began) for name, span in begun.items()
    ]


def owner(source: Source, value: Any) -> str | None:
    """The one conversation that a batch belongs to; None when it holds spans of several, or of
    none."""
    known = traces_of(source).conversation
    found = [*spans_in(value if isinstance(value, dict) else [], ""), *_bare(value)]
    owners = {known.get(item.trace) for item in found if not isinstance(item, Odd)}
    return owners.pop() if len(owners) == 1 else None


def _bare(value: Any) -> list[Span | Log | Odd]:
    """The spans of one batch that was taken out of its list."""
    if not isinstance(value, dict):
        return []
    is_batch = any(
        name in value for name in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
    )
    is_logs = any(name in value for name in ("scopeLogs", "scope_logs"))
    found = list(spans_in({"resourceSpans": [value]}, "")) if is_batch else []
    return found + (list(spans_in({"resourceLogs": [value]}, "")) if is_logs else [])


def roots_of(made: Traces, wanted: str | None) -> list[Span]:
    """The spans without a parent in the file, each with its children; siblings in the order in
    which they began.

    Spans are written when they end, so a parent stands behind its children, and one that still ran
    is missing."""
    chosen = [span for span in made.spans if span.trace in made.conversation]
    if wanted is not None:
        chosen = [span for span in chosen if made.conversation[span.trace] == wanted]
    by_id: dict[tuple[str, str], Span] = {}
    for span in chosen:
        span.children = []
        by_id.setdefault((span.trace, span.id), span)
    roots = []
    for span in chosen:
        above = by_id.get((span.trace, span.parent)) if span.parent else None
        if above is None or above is span:
            roots.append(span)
        else:
            above.children.append(span)
    met: set[int] = set()
    for span in list(roots):
        _reach(span, met)
    for span in chosen:
        if id(span) not in met:  # parents that go in a circle
            roots.append(span)
            _reach(span, met)
    return sorted(_gathered(roots) if made.is_one_run else roots, key=_start)


def _gathered(roots: list[Span]) -> list[Span]:
    """All spans of one run below its agent: with some frameworks the parents between them are not
    in the file."""
    agents = [span for span in roots if kind_of(span) == "agent"]
    if len(agents) != 1:
        return roots
    agents[0].children = sorted(
        [*agents[0].children, *(span for span in roots if span is not agents[0])], key=_start
    )
    return agents


def _reach(top: Span, met: set[int]) -> None:
    met.add(id(top))
    stack = [top]
    while stack:
        span = stack.pop()
        span.children = sorted(
            (child for child in span.children if id(child) not in met), key=_start
        )
        met.update(id(child) for child in span.children)
        stack += span.children


def _start(span: Span) -> int:
    return span.start or 0
