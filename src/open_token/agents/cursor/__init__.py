"""Cursor: agent transcripts, chats of the command line, and chats in the editor's databases."""

from open_token.formats.definition import Agent, Hooks, McpConfig, Skill

AGENT = Agent(
    name="cursor",
    title="Cursor",
    checked=(
        "transcripts of 2026; from descriptions only: store.db, state.vscdb (composers of version "
        "3 to 17), the older chats and composers of a workspace, the `stream-json` output of the "
        "command line"
    ),
    includes=(
        "prompts, responses, reasoning, tool calls and results, images, subagents; from databases "
        "also times, models, tokens"
    ),
    omits=(
        "drafts, checkpoints, diffs, metadata of tool results; transcripts contain few tool results"
    ),
    holds_several=True,
    signatures=(b'"message"', b'"tool_call"', b'"permissionMode"', b'"thinking"'),
    containers=("sqlite",),
    places=(
        ".cursor/projects/*/agent-transcripts/*/*.jsonl",
        ".cursor/projects/*/agent-transcripts/*.jsonl",
        ".cursor/chats/*/*/store.db",
        ".config/Cursor/User/globalStorage/state.vscdb",
        "Library/Application Support/Cursor/User/globalStorage/state.vscdb",
        "AppData/Roaming/Cursor/User/globalStorage/state.vscdb",
        ".config/Cursor/User/workspaceStorage/*/state.vscdb",
        "Library/Application Support/Cursor/User/workspaceStorage/*/state.vscdb",
        "AppData/Roaming/Cursor/User/workspaceStorage/*/state.vscdb",
    ),
    part_files=("subagents/*.jsonl",),
    session_file_variables=("CURSOR_TRANSCRIPT_PATH",),
    hooks=Hooks(
        home="{home}/.cursor",
        user="{home}/.cursor/hooks.json",
        project=".cursor/hooks.json",
        events=("sessionEnd", "preCompact", "stop"),
        top_level={"version": 1},
        handler={"command": "{command}", "timeout": 10},
        next_step="it starts with your next session",
    ),
    mcp=McpConfig(files=("{home}/.cursor/mcp.json",)),
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{home}/.cursor",),
        commands=("cursor-agent",),
        frontmatter=("disable-model-invocation: true",),
    ),
)
