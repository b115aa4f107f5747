"""VS Code Copilot Chat: sessions of the editor, as one document or as a log of patches."""

from open_token.formats.definition import Agent

_FOLDERS = (
    ".config/*",
    "Library/Application Support/*",
    "AppData/Roaming/*",
    ".*-server*/data",
)
_FILES = (
    "User/workspaceStorage/*/chatSessions/*.json",
    "User/workspaceStorage/*/chatSessions/*.jsonl",
    "User/globalStorage/emptyWindowChatSessions/*.json",
    "User/globalStorage/emptyWindowChatSessions/*.jsonl",
)

AGENT = Agent(
    name="vscode_copilot",
    title="VS Code Copilot Chat",
    checked=(
        "exports of October 2025 (Copilot Chat 0.31) in full; the log of patches from the source of "
        "VS Code and test data only"
    ),
    includes=(
        "prompts with attachments, answers, reasoning, tool calls with results, edits of files, "
        "progress, confirmations, errors, cancellations, follow-ups, the prompt as sent, model, "
        "tokens, unsent input, requests that were undone"
    ),
    omits=(
        "icons and ranges of the editor, undo stops, copies of answers and outputs for display, "
        "texts for tools in preparation"
    ),
    signatures=(b'"requests"',),
    places=tuple(f"{folder}/{file}" for folder in _FOLDERS for file in _FILES),
    technical_fields=(
        "agent",
        "slashCommand",
        "responseMarkdownInfo",
        "codeBlocks",
        "editorRange",
        "source",
        "baseUri",
        "requesterAvatarIconUri",
        "responderAvatarIconUri",
        "selectedModel",
        "codeCitations",
        "modeInfo",
        "ctorName",
    ),
)
