"""ATIF, Harbor's trajectory format: a document per agent, with subagents and continuations."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="atif",
    title="Harbor ATIF trajectories",
    checked="from descriptions only: ATIF v1.0 to v1.8",
    includes=(
        "steps with reasoning, tool calls, results, media references, subagents and "
        "continuations, token counts and cost"
    ),
    omits=(
        "token ids and log probabilities, tool definitions except their names, steps copied from "
        "another file"
    ),
    holds_several=True,
    signatures=(b'"ATIF-v',),
    places=("./jobs/*/*/agent/trajectory.json",),
    part_files=("trajectory.cont-*.json", "*.summarization-*.json"),
    is_experimental=True,
)
