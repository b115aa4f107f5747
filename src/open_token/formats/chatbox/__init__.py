"""Chatbox: its data on disk or the backup of them, with one session under each `session:` field."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="chatbox",
    title="Chatbox backup",
    checked="from descriptions only: its source code of 2026, and that of its first versions",
    includes=(
        "messages, reasoning, tool calls and results, files and links, errors, models, token "
        "counts, earlier threads and forks of a session"
    ),
    omits="settings, copilots, images and files that are stored outside of sessions",
    holds_several=True,
    signatures=(b'"session:', b'"chat-sessions"'),
    places=(
        ".config/xyz.chatboxapp.app/config.json",
        "Library/Application Support/xyz.chatboxapp.app/config.json",
        "AppData/Roaming/xyz.chatboxapp.app/config.json",
    ),
    technical_fields=("tokenCountMap", "tokenCalculatedAt"),
    is_experimental=True,
)
