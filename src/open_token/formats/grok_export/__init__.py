"""Grok data export: `prod-grok-backend.json`, the zip that holds it, its folder, or one conversation."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="grok_export",
    title="Grok data export",
    checked="the shape of public export files of 2025 and 2026, which key messages by `response_id` or `_id`",
    includes=(
        "messages, reasoning, steps, images and files, sources, abandoned branches with "
        "`branches=all`"
    ),
    omits="projects, tasks, generated media outside conversations, the account, display hints",
    holds_several=True,
    signatures=(b'"responses"', b'"media_posts"'),
    containers=("zip", "folder"),
)
