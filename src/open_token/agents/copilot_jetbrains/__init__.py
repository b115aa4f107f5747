"""GitHub Copilot in JetBrains editors: its sessions are in databases of a Java library."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="copilot_jetbrains",
    title="GitHub Copilot for JetBrains",
    checked="",
    includes="",
    omits="",
    unreadable="they are Nitrite databases, which only Java programs read",
    places=(
        ".config/github-copilot/*/*/*/copilot-*-nitrite.db",
        "AppData/Local/github-copilot/*/*/*/copilot-*-nitrite.db",
    ),
)
