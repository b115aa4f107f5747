"""AG-UI: the events by which an agent talks to a user interface, as lines, as a saved stream or as
a list."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="ag_ui",
    title="AG-UI event streams",
    checked="streams of Pydantic AI with protocol 1.0; before 1.0, subagents and 1.1 described, not seen",
    includes="messages, thoughts, calls, results, subagents, activities, steps, custom events, interrupts, usage of runs",
    omits="states and their changes, raw events of the framework, properties that are only passed on",
    signatures=(b'"RUN_', b'"TEXT_MESSAGE_', b'"TOOL_CALL_', b'"MESSAGES_SNAPSHOT"', b'"threadId"'),
)
