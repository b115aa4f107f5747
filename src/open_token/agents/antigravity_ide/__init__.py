"""Antigravity (the editor): its conversations are encrypted protocol buffers.

Since June 2026 it also writes transcripts, which `agents/antigravity` reads.
"""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="antigravity_ide",
    title="Antigravity IDE",
    checked="",
    includes="",
    omits="",
    unreadable="they are encrypted",
    places=(".gemini/antigravity/conversations/*.pb", ".gemini/antigravity/implicit/*.pb"),
)
