"""Kimi Code CLI: the event log of a session, and the wire log of the former Python CLI."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="kimi_cli",
    title="Kimi Code CLI",
    checked=(
        "event logs of protocol 1.4 (with trimmed values) and of Kimi Code 2.1.0, wire logs of the "
        "Python CLI 1.51"
    ),
    includes=(
        "prompts, answers, reasoning, tool calls and results, approvals, settings and tools, token "
        "counts, compactions, undone turns, subagents from their own files"
    ),
    omits=(
        "displayed form of calls (display), timings, bookkeeping such as requests, token counters "
        "and file history"
    ),
    signatures=(b'"protocol_version"', b'"context.append_', b'"TurnBegin"'),
    places=(
        "$KIMI_CODE_HOME/sessions/*/*/agents/main/wire.jsonl",
        ".kimi-code/sessions/*/*/agents/main/wire.jsonl",
        "$KIMI_SHARE_DIR/sessions/*/*/wire.jsonl",
        ".kimi/sessions/*/*/wire.jsonl",
    ),
    part_files=("agents/agent-*/wire.jsonl", "subagents/*/wire.jsonl"),
    technical_fields=("display",),
)
