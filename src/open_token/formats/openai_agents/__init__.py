"""The state of a run that the OpenAI Agents SDK writes down, in Python or JavaScript, to go on
later."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="openai_agents",
    title="OpenAI Agents SDK (RunState)",
    checked="schemas 1.13 to 1.21 of the Python SDK; that of the JavaScript SDK described, not seen",
    includes="the input, all items of all agents with handoffs, approvals that are waited for, guardrails, usage",
    omits="the application's own context object, definitions of tools, and bookkeeping of the run",
    signatures=(b'"$schemaVersion"',),
)
