"""The names in folders, listed once in a run that reads many files of the same folder."""

import fnmatch
import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class _Listing:
    """The names in one folder at one time."""

    mtime_ns: int
    names: list[str]
    matches: dict[str, list[str]] = field(default_factory=dict)
    """The names that match a pattern, by the pattern."""


class FolderListings:
    """Lists each folder once, and again only after a file was added to it or removed.

    For one run: a change that the file system dates like the listing may be seen at the next run.
    """

    def __init__(self) -> None:
        self._by_folder: dict[Path, _Listing] = {}

    def find_names(self, folder: Path, pattern: str) -> list[str]:
        """Return the names in a folder that match; none if it cannot be listed."""
        try:
            listing = self._get_listing(folder)
        except OSError:
            return []
        if pattern not in listing.matches:
            listing.matches[pattern] = fnmatch.filter(listing.names, pattern)
        return listing.matches[pattern]

    def _get_listing(self, folder: Path) -> _Listing:
        # Before the names are listed: what is added meanwhile must count as a change.
        mtime_ns = folder.stat().st_mtime_ns
        listing = self._by_folder.get(folder)
        if listing is None or listing.mtime_ns != mtime_ns:
            listing = _Listing(mtime_ns, os.listdir(folder))
            self._by_folder[folder] = listing
        return listing
