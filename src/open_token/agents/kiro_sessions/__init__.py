"""Kiro CLI with its newer engines: their sessions are found, but not read yet."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="kiro_sessions",
    title="Kiro CLI (engines v2 and v3)",
    checked="",
    includes="",
    omits="",
    unreadable="this version has no reader for them",
    places=(
        ".kiro/sessions/cli/*.jsonl",
        ".kiro/sessions/*/sess_*/messages.jsonl",
    ),
)
