"""Reads the data export of Claude.ai (`conversations.json`, the zip, its folder) and what its own
API gives out."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="claude_ai_export",
    title="Claude.ai data export",
    checked="conversations.json of June 2025 and one with thoughts; the API's form and the zip as described",
    includes="messages, thoughts with their summaries, tool calls and results, attachments with their text, branches",
    omits="the account, projects and memories beside the conversations, and the bytes of files, which it does not have",
    holds_several=True,
    signatures=(b'"chat_messages"',),
    containers=("zip", "folder"),
)
