"""Windsurf: takes our skill; its sessions are not read yet."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="windsurf",
    title="Windsurf",
    checked="",
    includes="",
    omits="",
    is_readable=False,
    skill=Skill(
        call="@stream-of-consciousness",
        user="{home}/.codeium/windsurf/skills",
        project=".windsurf/skills",
        folders=("{home}/.codeium/windsurf",),
        commands=("windsurf",),
    ),
)
