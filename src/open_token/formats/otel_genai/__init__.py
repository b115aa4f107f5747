"""OpenTelemetry traces of GenAI calls: OTLP as JSON, spans as the SDKs print them, traces of any-
agent."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="otel_genai",
    title="OpenTelemetry GenAI traces",
    checked="any-agent 1.9, OTLP lines of Visual Studio Copilot 18.6, OpenTelemetry's own for OpenAI 2.4 and Google 1.3, OpenLLMetry 0.62, OpenInference of 2026; other attribute dialects described, not seen",
    includes="what models were asked and answered, calls, results, agents, usage, errors, each message once",
    omits="spans that are no call of a model, an agent or a tool, and attributes about settings and the runtime",
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
