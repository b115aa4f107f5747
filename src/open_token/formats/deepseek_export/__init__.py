"""DeepSeek data export: `conversations.json`, the zip that holds it, or its folder."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="deepseek_export",
    title="DeepSeek data export",
    checked="from descriptions only: public parsers of exports of 2025",
    includes="messages, reasoning, searches, files, models, branches",
    omits="the account",
    holds_several=True,
    signatures=(b'"inserted_at"',),
    containers=("zip", "folder"),
    is_experimental=True,
)
