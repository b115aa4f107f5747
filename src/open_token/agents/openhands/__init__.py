"""OpenHands: folders and streams of its SDK's events, lists of the first version, runs of
benchmarks, model logs."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="openhands",
    title="OpenHands",
    checked="SDK 1.x conversation folders and events, logs of model calls; the lists of version 0 and the output.jsonl of benchmarks are described, not seen",
    includes="Prompts, words, thoughts, calls, results with exit codes, condensations, errors, pauses, tokens and costs; of a benchmark also the task and how each run ended.",
    omits="State updates, token ids, files before and after an edit; times, which have no zone; a benchmark's own description of a task.",
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
