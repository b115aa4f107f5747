"""Factory Droid: session files with Anthropic blocks, and the output of `droid exec`."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="factory_droid",
    title="Factory Droid",
    checked=(
        "from descriptions only: session files of version 2 (Droid 0.43 to 0.100) and stream-json "
        "output of 0.43, with the test data of other tools"
    ),
    includes=(
        "prompts, answers, reasoning, tool calls with results, injected reminders, compactions, "
        "todo lists, hooks, model, settings and token counts of the session"
    ),
    omits="outcomes of turns that ended as usual, an answer that the end of a stream repeats",
    signatures=(b'"session_start"', b'"tool_call"', b'"tool_result"', b'"finalText"'),
    places=(
        ".factory/sessions/*.jsonl",
        ".factory/sessions/*/*.jsonl",
        ".factory/projects/*/*.jsonl",
    ),
    is_experimental=True,
)
