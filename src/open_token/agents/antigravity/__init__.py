"""Antigravity, the command line (`agy`) and the editor: one transcript of steps a conversation.

Editors before June 2026 wrote no transcripts: their conversations are encrypted
(`agents/antigravity_ide`).
"""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="antigravity",
    title="Antigravity",
    checked="14 public transcripts of June 2026: of the command line, the editor and the application",
    includes=(
        "prompts without the client's metadata, which is kept apart, reasoning, answers, tool calls "
        "with results matched by order, checkpoints, messages of the client, model"
    ),
    omits="steps that mark the history, texts that the agent itself stored cut short",
    signatures=(b'"step_index"',),
    places=tuple(
        f".gemini/{folder}/brain/*/.system_generated/logs/transcript.jsonl"
        for folder in ("antigravity-cli", "antigravity-ide", "antigravity")
    ),
    technical_fields=("step_index", "status", "source"),
)
