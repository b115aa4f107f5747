"""The files of a session: one folder each, out of which no path leads."""

from pathlib import Path


class Workspace:
    """The folder of one session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remove_all(self) -> None:
        """Take all files away."""


class Workspaces:
    """The folders of all sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, session_id: str) -> Workspace:
        """The workspace of a session; its folder is made when something is written."""
        return Workspace(self.folder / session_id)
