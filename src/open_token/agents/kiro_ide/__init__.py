"""Kiro, the editor: its sessions are found, but not read yet."""

from open_token.formats.definition import Agent

_STORAGE = "Kiro/User/globalStorage/kiro.kiroagent"

AGENT = Agent(
    name="kiro_ide",
    title="Kiro IDE",
    checked="",
    includes="",
    omits="",
    unreadable="this version has no reader for them",
    places=tuple(
        f"{folder}/{_STORAGE}/{pattern}"
        for folder in (".config", "Library/Application Support", "AppData/Roaming")
        # Names of sessions are UUIDs; `sessions.json` beside them is a list.
        for pattern in ("workspace-sessions/*/*-*-*.json", "*/*.chat")
    ),
)
