"""Mistral Vibe: chat messages, one a line, with a file about the session next to them."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="mistral_vibe",
    title="Mistral Vibe",
    checked="from descriptions only: its source code of July 2026",
    includes=(
        "messages, injected messages, reasoning, tool calls with results, the system prompt, names "
        "of tools, title, folder, branch, model, token counts of the session"
    ),
    omits="definitions of tools, the configuration",
    signatures=(b'"injected"', b'"message_id"'),
    places=(
        "$VIBE_HOME/logs/session/*/messages.jsonl",
        ".vibe/logs/session/*/messages.jsonl",
    ),
    part_files=("meta.json",),
    technical_fields=("config", "tools_available", "reasoning_state", "experiments"),
    is_experimental=True,
)
