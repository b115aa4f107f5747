"""Amp: a thread as the client kept it on the disk, one JSON document each."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="amp",
    title="Amp",
    checked="described, not seen; threads that the client kept until spring 2026",
    includes="Talk, thoughts, tool calls with their runs, commands the person ran, mentioned files, summaries, subagents, usage, links to other threads.",
    omits="The state of the editor, progress of tools and tracked files, all only with native=full.",
    signatures=(b'"T-',),
    places=(
        "$AMP_DATA_DIR/threads/T-*.json",
        ".local/share/amp/threads/T-*.json",
        ".config/*/User/globalStorage/sourcegraph.amp/threads3/T-*.json",
        "Library/Application Support/*/User/globalStorage/sourcegraph.amp/threads3/T-*.json",
        "AppData/Roaming/*/User/globalStorage/sourcegraph.amp/threads3/T-*.json",
    ),
    skill=Skill(
        call="Export this conversation with the stream-of-consciousness skill.",
        user="{config}/agents/skills",
        folders=("{config}/amp",),
    ),
)
