"""Factory Droid: session files with Anthropic blocks, and the output of `droid exec`."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="factory_droid",
    title="Factory Droid",
    checked=(
        "0.215.0: session files of version 2 and stream-json output, with a scripted model, "
        "commands, reasoning and subagents; from descriptions only: 0.43 to 0.100"
    ),
    includes=(
        "prompts, answers, reasoning, tool calls with results, injected reminders, compactions, "
        "todo lists, hooks, model, settings and token counts of the session"
    ),
    omits=(
        "outcomes of turns that ended as usual, an answer that the end of a stream repeats, "
        "subagents in the background, whose sessions are files of their own"
    ),
    signatures=(
        b'"session_start"',
        b'"tool_call"',
        b'"tool_result"',
        b'"finalText"',
        b'"type":"message"',
        b'"type": "message"',
    ),
    places=(
        ".factory/sessions/*.jsonl",
        ".factory/sessions/*/*.jsonl",
        ".factory/projects/*/*.jsonl",
    ),
)
