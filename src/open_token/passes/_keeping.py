"""Keeps what can be made again, such as compiled rules, in the cache folder; where it cannot, that
only costs time."""

from pathlib import Path

from open_token.errors import OutputError
from open_token.storage.files import make_folder, write_private


def keep(path: Path, data: bytes) -> bool:
    """Write a private file; False where that cannot be, as on a full disk."""
    try:
        if not make_folder(path.parent):
            return False
        write_private(path, data)
    except (OutputError, OSError):
        return False
    return True
