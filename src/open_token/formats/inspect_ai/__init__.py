"""Inspect AI: evaluation logs as JSON or as `.eval` archives, in which each sample of each epoch is
a conversation."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="inspect_ai",
    title="Inspect AI evaluation logs",
    checked="JSON logs and archives of 0.3.41 to 0.3.95; message pools, chunked samples and agent spans are described, not seen",
    includes="Messages, thoughts, calls, results and their errors, times, subagents, handoffs, scorers, scores, token counts.",
    omits="State, store and sandbox events, the provider's raw requests and answers, the plan, metadata of the dataset.",
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
