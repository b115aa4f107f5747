"""Kiro CLI, formerly Amazon Q Developer CLI: a database, or since version 2 a file a session."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="kiro_cli",
    title="Kiro CLI (Amazon Q CLI)",
    checked=(
        "from descriptions only: the tables `conversations_v2` of Kiro CLI and `conversations` of "
        "Amazon Q CLI, and session files of version 2, as public parsers read them"
    ),
    includes=(
        "prompts, answers, tool calls with results, calls that the person cancelled, the summary "
        "of a compaction, attached images, folder, model"
    ),
    omits=(
        "descriptions of tools, hooks and context files, checkpoints, sizes and timings of "
        "requests, the copy of the history as plain text"
    ),
    containers=("sqlite",),
    signatures=(b"SQLite format 3", b'"Prompt"', b'"AssistantMessage"'),
    holds_several=True,
    places=(
        ".kiro/sessions/cli/*.jsonl",
        *(
            f"{folder}/{name}/data.sqlite3"
            for folder in (".local/share", "Library/Application Support")
            for name in ("kiro-cli", "amazon-q")
        ),
    ),
    technical_fields=(
        "additional_context",
        "env_context",
        "orig_args",
        "orig_name",
        "request_metadata",
        "tools",
        "transcript",
        "user_turn_metadata",
    ),
    is_experimental=True,
)
