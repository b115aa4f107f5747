"""Detection of OpenTelemetry traces."""

from typing import Any

from open_token.sources.source import Source

_BATCHES = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")


def sniff(source: Source) -> bool:
    """Return whether the source holds spans in one of the known forms."""
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
    """Return whether a value is a span as SDKs print it: ids in a context, attributes as an object."""
    if not isinstance(value, dict) or not isinstance(value.get("attributes"), dict):
        return False
    context = value.get("context")
    if not isinstance(context, dict):
        return False
    return "trace_id" in context and "span_id" in context and "start_time" in value
