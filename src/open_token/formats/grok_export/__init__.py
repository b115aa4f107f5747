"""Reads the data export of Grok: `prod-grok-backend.json`, the zip that holds it, its folder, or
one conversation."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="grok_export",
    title="Grok data export",
    checked="described, not seen",
    includes="messages, thoughts, steps, images and files, sources, with `branches=all` the branches that were left",
    omits="projects, tasks and generated media beside the conversations, the account, layout hints of the page",
    holds_several=True,
    signatures=(b'"responses"', b'"media_posts"'),
    containers=("zip", "folder"),
)
