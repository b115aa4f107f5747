"""OpenTelemetry traces of GenAI calls: OTLP as JSON, spans as the SDKs print them, traces of
any-agent."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.source import Source

TITLE = "OpenTelemetry GenAI traces"
PLACES = (
    "$TEMP/VSGitHubCopilotLogs/traces/*_VSGitHubCopilot_traces.jsonl",
    "AppData/Local/Temp/VSGitHubCopilotLogs/traces/*_VSGitHubCopilot_traces.jsonl",
)
SEEN = (
    "any-agent 1.9, OTLP lines of Visual Studio Copilot 18.6, OpenTelemetry's own for OpenAI 2.4 and Google 1.3,"
    " OpenLLMetry 0.62, OpenInference of 2026; other attribute dialects described, not seen"
)
CARRIES = (
    "what models were asked and answered, calls, results, agents, usage, errors, each message once"
)
LEAVES = "spans that are no call of a model, an agent or a tool, and attributes about settings and the runtime"
ASIDE = ("key", "eventName")
"""Fields that nobody said."""
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


def conversations(source: Source) -> list[Found]:
    """The conversations that the spans name, or else their traces."""
    found: list[Found] = import_module("open_token.readers._otel_traces").conversations(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation of a batch of spans."""
    owner: str | None = import_module("open_token.readers._otel_traces").owner(source, value)
    return owner


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._otel_genai").read(source, draft)
