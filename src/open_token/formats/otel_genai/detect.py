"""OpenTelemetry traces of GenAI calls: OTLP as JSON, spans as the SDKs print them, traces of
any-agent."""

from typing import Any

from open_token.sources.source import Source

_BATCHES = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")


def sniff(source: Source) -> bool:
    """Whether it is spans in one of these forms."""
    records = source.sample
    if source.shape == "document" and records and isinstance(records[0], list):
        records = records[0][:64]
    return any(_is_trace(record) or _is_span(record) for record in records)


def _is_trace(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if any(isinstance(value.get(name), list) for name in _BATCHES):
        return True
    spans = value.get("spans")
    return isinstance(spans, list) and bool(spans) and all(_is_span(span) for span in spans[:64])


def _is_span(value: Any) -> bool:
    """A span as the SDK prints it: ids inside a context, attributes as an object."""
    if not isinstance(value, dict) or not isinstance(value.get("attributes"), dict):
        return False
    context = value.get("context")
    return (
        isinstance(context, dict)
        and "trace_id" in context
        and "span_id" in context
        and "start_time" in value
    )
