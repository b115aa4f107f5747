"""Aider: the chat history it keeps in Markdown beside the code, many sessions in one file."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="aider",
    title="Aider",
    checked="histories of 0.47 to 0.57",
    includes="Prompts and commands, answers with their edits as text, what aider itself said, token counts where they are exact; each session is a conversation.",
    omits="Nothing of the file; its times are local ones and stay as they are written.",
    holds_several=True,
    signatures=(b"# aider chat started at",),
    places=(
        "$AIDER_CHAT_HISTORY_FILE",
        "./.aider.chat.history.md",
        ".aider.chat.history.md",
        "*/.aider.chat.history.md",
        "*/*/.aider.chat.history.md",
    ),
    block_separator="^# aider chat started at \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d[ \\t]*\\r?$",
)
