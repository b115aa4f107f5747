"""The Amazon Bedrock Converse API: bodies, pairs, messages, saved streams, model invocation logs."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="bedrock_converse",
    title="Amazon Bedrock Converse (requests, responses, messages, streams, invocation logs)",
    checked=(
        "requests, responses and streams of 2024 to 2026 with models of Amazon, Anthropic, Meta, "
        "Mistral and others; from descriptions only: model invocation logs"
    ),
    includes="system prompts, every content block, reasoning with its words, calls and results, tools of the server, citations, guardrail traces, usage",
    omits="cache points, request settings, latencies, reasoning signatures",
    technical_fields=("signature", "redactedContent", "toolConfig", "ResponseMetadata"),
)
