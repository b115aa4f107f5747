"""Where the work goes on, and what is written there."""

from collections.abc import Mapping
from pathlib import Path

import msgspec


class Scene(msgspec.Struct, frozen=True):
    """The project's folder, the user's home, the environment; a number for one more copy of the
    same."""

    cwd: str
    home: Path
    env: Mapping[str, str]
    copy: int = 0


class Session(msgspec.Struct, frozen=True):
    """What is written for an agent, and the words that start it there."""

    id: str
    files: dict[Path, bytes]
    """By place; the first is the session itself."""
    start: list[list[str]]
    """The commands that start it there, one after the other."""
    loose: list[str]
    """The words before the path that start the first file wherever it lies; empty where the agent
    cannot."""
