"""Claude.ai data export: `conversations.json`, the zip, its folder, or a conversation of its API."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="claude_ai_export",
    title="Claude.ai data export",
    checked=(
        "conversations.json of June 2025 and one with reasoning; from descriptions only: the "
        "API's form and the zip"
    ),
    includes=(
        "messages, reasoning with its summaries, tool calls and results, attachments with their "
        "text, branches"
    ),
    omits=(
        "the account, projects and memories, the bytes of files (which the export does not contain)"
    ),
    holds_several=True,
    signatures=(b'"chat_messages"',),
    containers=("zip", "folder"),
)
