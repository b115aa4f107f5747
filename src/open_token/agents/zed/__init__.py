"""Zed: threads of its agent panel in a database, each as JSON that is usually compressed."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="zed",
    title="Zed",
    checked="from descriptions only: its source code of 2025 and 2026 (thread versions 0.1.0 to 0.3.0)",
    includes=(
        "prompts with mentions and images, answers, reasoning, tool calls with results, subagents, "
        "summaries, model, profile, token counts of the thread"
    ),
    omits=(
        "structured results beside their text, the project snapshot, token counts of single "
        "requests, the state of the screen"
    ),
    containers=("sqlite",),
    holds_several=True,
    places=(
        ".local/share/zed/threads/threads.db",
        ".var/app/dev.zed.Zed/data/zed/threads/threads.db",
        "Library/Application Support/Zed/threads/threads.db",
        "AppData/Local/Zed/threads/threads.db",
    ),
    technical_fields=("signature", "thought_signature", "raw_input", "output", "data_type"),
    is_experimental=True,
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{config}/zed",),
        frontmatter=("disable-model-invocation: true",),
    ),
)
