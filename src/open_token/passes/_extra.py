"""Whether the lists of people's names are installed, and the remark for an account that had to do
without them."""

import functools
from importlib.util import find_spec
from pathlib import Path

# The package of the extra `pii`. Only its data is read; not one line of it runs.
_PACKAGE = "mimesis"
_REMARK = "people's names were looked for by context alone: open-token[pii] is not installed"


@functools.cache
def names_folder() -> Path | None:
    """Where the lists of names lie; None where they are not installed."""
    try:
        found = find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    folder = Path(found.origin).parent / "datasets"
    return folder if (folder / "en" / "person.json").is_file() else None


def lacking(level: str) -> list[str]:
    """What an account of this level has to say of missing packages."""
    return [_REMARK] if level in ("pii", "strict") and names_folder() is None else []
