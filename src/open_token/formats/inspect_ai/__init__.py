"""Inspect AI evaluation logs: JSON files or `.eval` archives, with a conversation per sample and epoch."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="inspect_ai",
    title="Inspect AI evaluation logs",
    checked=(
        "JSON logs and archives of 0.3.41 to 0.3.95; from descriptions only: message pools, "
        "chunked samples and agent spans"
    ),
    includes=(
        "messages, reasoning, tool calls, results and their errors, times, subagents, handoffs, "
        "scorers, scores, token counts"
    ),
    omits=(
        "state, store and sandbox events, raw requests to the provider and its responses, the "
        "plan, metadata of the dataset"
    ),
    holds_several=True,
    signatures=(b'"eval"', b'"epoch"'),
    containers=("zip",),
    places=(
        "$INSPECT_LOG_DIR/**/*.eval",
        "$INSPECT_LOG_DIR/**/20*T*_*.json",
        "./logs/*.eval",
        "./logs/20*T*_*.json",
    ),
    technical_fields=("revision",),
)
