"""Reads the data export of ChatGPT: the zip as it is downloaded, its folder, `conversations.json`,
one conversation."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="chatgpt_export",
    title="ChatGPT data export",
    checked="conversations.json of June 2025; later content types, the zip and its split files as described",
    includes="the shown line of messages, tool calls and results, thoughts, images and files, with `branches=all` the rest",
    omits="feedback, shared links, the account, and what only the page needs of a message's metadata",
    holds_several=True,
    signatures=(b'"mapping"',),
    containers=("zip", "folder"),
)
