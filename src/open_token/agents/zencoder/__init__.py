"""Zencoder: its sessions are found, but not read yet."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="zencoder",
    title="Zencoder",
    checked="",
    includes="",
    omits="",
    unreadable="this version has no reader for them",
    places=(".zencoder/sessions/*.jsonl",),
)
