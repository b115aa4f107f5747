"""Aider: the chat history that it writes in Markdown, with many sessions in one file."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="aider",
    title="Aider",
    checked="histories of 0.47 to 0.57",
    includes=(
        "prompts and commands, responses with their edits as text, messages of aider itself, exact "
        "token counts; each session is a conversation"
    ),
    omits="nothing; times are local times without a time zone and stay text",
    holds_several=True,
    signatures=(b"# aider chat started at",),
    places=(
        "$AIDER_CHAT_HISTORY_FILE",
        "./.aider.chat.history.md",
        ".aider.chat.history.md",
        "*/.aider.chat.history.md",
        "*/*/.aider.chat.history.md",
    ),
    block_separator=(r"^# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[ \t]*\r?$"),
)
