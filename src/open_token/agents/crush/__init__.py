"""Crush, and the first OpenCode that it comes from: a database in the folder of the project."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="crush",
    title="Crush",
    checked="public databases of July to September 2025; from descriptions only: its schema of 2026, subagents",
    includes=(
        "messages, reasoning, tool calls with results, subagents, commands that the person ran, "
        "images, summaries, todo lists, unusual stops, model, token counts and cost of the session"
    ),
    omits="versions of files, metadata of results, sessions that only find a title",
    containers=("sqlite",),
    signatures=(b"SQLite format 3",),
    holds_several=True,
    places=(
        "./.crush/crush.db",
        ".crush/crush.db",
        ".local/share/crush/crush.db",
        "AppData/Local/crush/crush.db",
        "./.opencode/opencode.db",
    ),
    technical_fields=("files", "metadata", "signature", "thought_signature", "responses_data"),
)
