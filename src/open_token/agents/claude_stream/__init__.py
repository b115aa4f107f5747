"""The stream of messages that Claude Code prints instead of writing a session: stream-json."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="claude_stream",
    title="Claude Code stream-json",
    checked=(
        "published single messages of versions 1.0 to 2.1; from descriptions only: whole streams"
    ),
    includes=(
        "prompts where the stream repeats them, answers, thinking, tool calls and results, subagents, "
        "answers that broke off, model, tools and folder of the run, cost, duration, usage, denied "
        "calls, compactions"
    ),
    omits=(
        "structured result data (tool_use_result), the parts of answers that also come as a whole, "
        "signs of life and control messages, thinking signatures"
    ),
    signatures=(b'"session_id"', b'"parent_tool_use_id"', b'"stream_event"', b'"total_cost_usd"'),
    # Where claude-code-action writes its stream.
    places=("$RUNNER_TEMP/claude-execution-output.json",),
    technical_fields=("tool_use_result",),
)
