"""ChatGPT data export: the downloaded zip, its folder, `conversations.json`, or one conversation."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="chatgpt_export",
    title="ChatGPT data export",
    checked=(
        "conversations.json of June 2025; from descriptions only: later content types, the zip "
        "and its split files"
    ),
    includes=(
        "the displayed branch of messages, tool calls and results, reasoning, images and files, "
        "other branches with `branches=all`"
    ),
    omits="feedback, shared links, the account, display metadata of messages",
    holds_several=True,
    signatures=(b'"mapping"',),
    containers=("zip", "folder"),
)
