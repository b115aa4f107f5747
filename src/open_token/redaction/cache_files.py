"""Write files that can be rebuilt, such as compiled rules, to the cache folder."""

from pathlib import Path

from open_token.errors import OutputError
from open_token.storage.files import make_folder, write_private


def write_cache_file(path: Path, data: bytes) -> bool:
    """Write a private file; return False where that fails, for example on a full disk."""
    try:
        if not make_folder(path.parent):
            return False
        write_private(path, data)
    except (OutputError, OSError):
        return False
    return True
