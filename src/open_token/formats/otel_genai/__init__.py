"""OpenTelemetry traces of GenAI calls: OTLP as JSON, spans as SDKs print them, any-agent traces."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="otel_genai",
    title="OpenTelemetry GenAI traces",
    checked=(
        "any-agent 1.9, OTLP lines of Visual Studio Copilot 18.6, OpenTelemetry's own "
        "instrumentations for OpenAI 2.4 and Google 1.3, OpenLLMetry 0.62, OpenInference of "
        "2026; from descriptions only: other attribute conventions"
    ),
    includes=(
        "model inputs and outputs (each message once), tool calls and results, agents, usage, errors"
    ),
    omits=(
        "spans other than calls of a model, an agent or a tool, attributes about settings and the "
        "runtime"
    ),
    holds_several=True,
    signatures=(
        b'"resourceSpans"',
        b'"resource_spans"',
        b'"resourceLogs"',
        b'"resource_logs"',
        b'"trace_id"',
    ),
    places=(
        "$TEMP/VSGitHubCopilotLogs/traces/*_VSGitHubCopilot_traces.jsonl",
        "AppData/Local/Temp/VSGitHubCopilotLogs/traces/*_VSGitHubCopilot_traces.jsonl",
    ),
    technical_fields=("key", "eventName"),
)
