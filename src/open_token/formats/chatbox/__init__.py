"""Chatbox: the backup of its data, with one session under each `session:` field."""

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
    technical_fields=("tokenCountMap", "tokenCalculatedAt"),
    is_experimental=True,
)
