"""The app server of Codex: the JSON-RPC messages between it and an editor, one a line."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="codex_app_server",
    title="Codex app server logs",
    checked="from descriptions only: the source code of Codex of August 2026",
    includes=(
        "prompts, answers, reasoning, commands, patches, calls of MCP and other tools, subagents, "
        "plans, approvals, errors, token counts"
    ),
    omits="deltas of items that are there complete, diffs of turns, account and settings",
    signatures=(b"thread/started", b"thread/start", b"turn/started", b"turn/start", b"item/"),
    is_experimental=True,
)
