"""Where a conversation is handed over to, and the session that is written there."""

from collections.abc import Mapping
from pathlib import Path

import msgspec


class HandoffDestination(msgspec.Struct, frozen=True):
    """The project, the home directory and the environment that a session is written for."""

    cwd: str
    home: Path
    env: Mapping[str, str]
    copy: int = 0
    """Tells several copies of one conversation in the same project apart."""


class HandoffSession(msgspec.Struct, frozen=True):
    """A session in the format of another agent, and the commands that resume it."""

    id: str
    files: dict[Path, bytes]
    """By path; the first one is the session itself."""
    commands: list[list[str]]
    """The commands that resume the session, in order."""
    file_command: list[str]
    """The command that resumes from a file in any place, without the path; empty if the agent
    has none."""
