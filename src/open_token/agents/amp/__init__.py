"""Amp: a thread as the client stored it on disk, one JSON document each."""

from open_token.formats.definition import Agent, McpConfig, Skill

AGENT = Agent(
    name="amp",
    title="Amp",
    checked="from descriptions only: threads that clients stored until spring 2026",
    includes=(
        "prompts, responses, reasoning, tool calls and results, commands the user ran, mentioned "
        "files, summaries, subagents, tokens, links to other threads"
    ),
    omits="the state of the editor, progress of tools, tracked files",
    signatures=(b'"T-',),
    places=(
        "$AMP_DATA_DIR/threads/T-*.json",
        ".local/share/amp/threads/T-*.json",
        ".config/*/User/globalStorage/sourcegraph.amp/threads3/T-*.json",
        "Library/Application Support/*/User/globalStorage/sourcegraph.amp/threads3/T-*.json",
        "AppData/Roaming/*/User/globalStorage/sourcegraph.amp/threads3/T-*.json",
    ),
    mcp=McpConfig(files=("{config}/amp/settings.json",), key="amp.mcpServers"),
    skill=Skill(
        call="Export this conversation with the stream-of-consciousness skill.",
        user="{config}/agents/skills",
        folders=("{config}/amp",),
    ),
    is_experimental=True,
)
