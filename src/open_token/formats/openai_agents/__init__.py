"""OpenAI Agents SDK: the state of a run that it writes, in Python or JavaScript, to resume later."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="openai_agents",
    title="OpenAI Agents SDK (RunState)",
    checked=(
        "schemas 1.13 to 1.21 of the Python SDK; from descriptions only: that of the JavaScript SDK"
    ),
    includes=(
        "the input, all items of all agents with handoffs, pending approvals, guardrails, usage"
    ),
    omits="the application's context object, tool definitions, bookkeeping of the run",
    signatures=(b'"$schemaVersion"',),
)
