"""Kiro CLI with its newest engine: its sessions are found, but not read yet."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="kiro_sessions",
    title="Kiro CLI (engine v3)",
    checked="",
    includes="",
    omits="",
    unreadable="this version has no reader for them",
    places=(".kiro/sessions/*/sess_*/messages.jsonl",),
)
