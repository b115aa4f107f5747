"""Zed: takes our skill; its sessions are not read yet."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="zed",
    title="Zed",
    checked="",
    includes="",
    omits="",
    is_readable=False,
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{config}/zed",),
        frontmatter=("disable-model-invocation: true",),
    ),
)
