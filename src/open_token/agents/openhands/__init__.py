"""OpenHands: events of its SDK and of version 0, benchmark runs, and logs of model calls."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="openhands",
    title="OpenHands",
    checked=(
        "SDK 1.x conversation folders and events, logs of model calls; from descriptions only: "
        "the lists of version 0, the output.jsonl of benchmarks"
    ),
    includes=(
        "prompts, responses, reasoning, tool calls, results with exit codes, condensations, "
        "errors, pauses, tokens, costs; from benchmarks also the task and the outcome of each run"
    ),
    omits=(
        "state updates, token ids, files before and after an edit, times without a time zone, the "
        "benchmark's own description of a task, messages repeated as text for models without function "
        "calling"
    ),
    holds_several=True,
    signatures=(
        b'"source"',
        b'"observation"',
        b'"action"',
        b'"agent"',
        b'"latency_sec"',
        b'"messages"',
        b'"input"',
        b'"instance_id"',
    ),
    containers=("folder",),
    places=(
        "$OPENHANDS_CONVERSATIONS_DIR/*/base_state.json",
        "$OPENHANDS_PERSISTENCE_DIR/conversations/*/base_state.json",
        ".openhands/conversations/*/base_state.json",
    ),
    part_files=("event-[0-9]*-*.json",),
    technical_fields=("tools", "persistence_dir"),
)
