"""Disks that are full: a small file system in memory, which only root can mount."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_FILLER = "filler"
_PIECE = b"x" * 4096


@contextlib.contextmanager
def mount_small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of a size in a new folder; a test without the right to mount one is skipped."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(folder: Path) -> None:
    """Use up all space."""
    with contextlib.suppress(OSError), (folder / _FILLER).open("ab", buffering=0) as out:
        while out.write(_PIECE):
            pass


def free_disk(folder: Path) -> None:
    """Give it back."""
    (folder / _FILLER).unlink()
