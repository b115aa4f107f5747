"""Windsurf: takes our skill; its sessions are encrypted."""

from open_token.formats.definition import Agent, McpConfig, Skill

AGENT = Agent(
    name="windsurf",
    title="Windsurf",
    checked="",
    includes="",
    omits="",
    unreadable="they are encrypted",
    places=(".codeium/windsurf/cascade/*.pb", ".codeium/windsurf-next/cascade/*.pb"),
    mcp=McpConfig(files=("{home}/.codeium/windsurf/mcp_config.json",)),
    skill=Skill(
        call="@stream-of-consciousness",
        user="{home}/.codeium/windsurf/skills",
        project=".windsurf/skills",
        folders=("{home}/.codeium/windsurf",),
        commands=("windsurf",),
    ),
)
