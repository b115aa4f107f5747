"""The app server of Codex: the JSON-RPC messages between it and an editor, one a line."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="codex_app_server",
    title="Codex app server logs",
    checked=(
        "0.169.0, with a scripted model: turns, commands, approvals and subagents; from "
        "descriptions only: patches, searches, reviews, resumed threads"
    ),
    includes=(
        "prompts, answers, reasoning, commands, patches, calls of MCP and other tools, subagents, "
        "plans, approvals, errors, token counts"
    ),
    omits="deltas of items that are there complete, diffs of turns, account and settings",
    signatures=(b"thread/started", b"thread/start", b"turn/started", b"turn/start", b"item/"),
    technical_fields=("path", "userAgent", "codexHome"),
)
