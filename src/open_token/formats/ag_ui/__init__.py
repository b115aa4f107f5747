"""AG-UI, the events from agents to user interfaces, as lines, as a recorded stream or as a list."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="ag_ui",
    title="AG-UI event streams",
    checked=(
        "streams of Pydantic AI with protocol 1.0; from descriptions only: earlier ones, "
        "subagents and 1.1"
    ),
    includes=(
        "messages, reasoning, tool calls, results, subagents, activities, steps, custom events, "
        "interrupts, usage of runs"
    ),
    omits="states and their changes, raw events of the framework, forwarded properties",
    signatures=(b'"RUN_', b'"TEXT_MESSAGE_', b'"TOOL_CALL_', b'"MESSAGES_SNAPSHOT"', b'"threadId"'),
)
