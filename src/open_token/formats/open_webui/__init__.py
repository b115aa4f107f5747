"""Open WebUI: exported chats, each with a tree of messages."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="open_webui",
    title="Open WebUI export",
    checked=(
        "public example files of 2025; from descriptions only: its source code of July 2026, for "
        "tool calls, files, ratings and token counts"
    ),
    includes=(
        "messages, reasoning, tool calls and results, attachments, sources, ratings, errors, "
        "models, system prompt, token counts, branches"
    ),
    omits="the copy of the current branch as a list, display names of models",
    holds_several=True,
    signatures=(b'"history"',),
    technical_fields=("childrenIds", "modelName", "models", "user_id"),
)
