"""ATIF, the trajectory format of Harbor: one document per agent, with subagents and continuations
in or beside it."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="atif",
    title="Harbor ATIF trajectories",
    checked="ATIF v1.0 to v1.8, described, not seen",
    includes="Steps with thoughts, calls, results, media references, subagents and continuations, token counts and cost.",
    omits="Token ids and log probabilities, the definitions of tools but for their names, steps copied from another file.",
    holds_several=True,
    signatures=(b'"ATIF-v',),
    part_files=("trajectory.cont-*.json", "*.summarization-*.json"),
)
