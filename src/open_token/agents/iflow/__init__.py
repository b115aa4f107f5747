"""iFlow CLI: snapshots of streamed answers in the envelope of Claude Code, results as in Gemini."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="iflow",
    title="iFlow CLI",
    checked="a session of January 2026 (record version 1.0.0)",
    includes=(
        "prompts, answers, reasoning, each tool call once with its result and status, token counts "
        "where present"
    ),
    omits=(
        "displayed form of results (resultDisplay), the tree of records, which only reflects "
        "streaming"
    ),
    signatures=(b'"session-', b'"response-', b'"responseParts"'),
    places=(".iflow/projects/*/session-*.jsonl",),
    technical_fields=("resultDisplay",),
)
