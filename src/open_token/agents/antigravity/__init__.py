"""Antigravity CLI (`agy`): one transcript of steps for each conversation.

The conversations of the editor are encrypted: `agents/antigravity_ide`.
"""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="antigravity",
    title="Antigravity CLI",
    checked="from descriptions only: transcripts of version 1.0.12, with the test data of other tools",
    includes=(
        "prompts without the client's metadata, which is told apart, reasoning, answers, tool calls "
        "with results matched by order, checkpoints, messages of the client, model"
    ),
    omits="steps that mark the history, texts that the agent itself stored cut short",
    signatures=(b'"step_index"',),
    places=tuple(
        f".gemini/{folder}/brain/*/.system_generated/logs/transcript.jsonl"
        for folder in ("antigravity-cli", "antigravity")
    ),
    technical_fields=("step_index", "status", "source"),
    is_experimental=True,
)
