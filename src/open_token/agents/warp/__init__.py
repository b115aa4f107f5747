"""Warp: the answers of its agent are protocol buffers in a database."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="warp",
    title="Warp",
    checked="",
    includes="",
    omits="",
    unreadable="the answers in them are protocol buffers without a public description",
    places=(
        ".local/state/warp-terminal*/warp.sqlite",
        "Library/Group Containers/*.dev.warp/Library/Application Support/dev.warp.Warp-*/warp.sqlite",
        "Library/Application Support/dev.warp.Warp-*/warp.sqlite",
        "AppData/Local/warp/Warp/data/warp.sqlite",
    ),
)
