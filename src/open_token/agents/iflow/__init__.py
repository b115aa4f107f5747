"""iFlow CLI: the envelope of Claude Code around snapshots of a stream, with results in Gemini's
form."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="iflow",
    title="iFlow CLI",
    checked="a session of January 2026 (records of version 1.0.0)",
    includes="prompts, answers, thoughts, each call once with its result and status, token counts where they are given",
    omits="what the screen showed of a result (resultDisplay), and the tree of records, which tells of streaming alone",
    signatures=(b'"session-', b'"response-', b'"responseParts"'),
    places=(".iflow/projects/*/session-*.jsonl",),
    technical_fields=("resultDisplay",),
)
