"""File names of archived conversations: readable, portable and unique."""

import re
import unicodedata
from collections.abc import Callable

GENERATED_ID = re.compile(r"conv_([0-9]{4})([0-9]{2})([0-9]{2})_([0-9a-f]{8})")
"""An id that no agent gave: it holds a day and a hash of the source."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ARCHIVE_NAME = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|undated)_")
_MAX_TITLE = 60
_MAX_ID = 40


def choose_day(id: str, *moments: str | None) -> str:
    """Return the day of a conversation: that of the first moment, of its id, of other moments."""
    generated = GENERATED_ID.fullmatch(id)
    id_day = None
    if generated and generated[1] != "0000":
        id_day = "-".join(generated.groups()[:3])
    for day in (moments[0], id_day, *moments[1:]):
        if day and _DAY.match(day):
            return day[:10]
    return "undated"


def choose_file_name(
    day: str, title: str | None, id: str, suffix: str, is_free: Callable[[str], bool]
) -> str:
    """Return day, title and start of the id, with a number if that name is taken."""
    parts = (day, slugify(title or "", _MAX_TITLE), _shorten_id(id, bool(title)))
    stem = "_".join(part for part in parts if part)
    name = f"{stem}.{suffix}"
    number = 1
    while not is_free(name):
        number += 1
        name = f"{stem}-{number}.{suffix}"
    return name


def is_opaque_id(id: str) -> bool:
    """Return whether an id says nothing to a person: a UUID, or one that no agent gave."""
    return bool(GENERATED_ID.fullmatch(id) or _UUID.fullmatch(id))


def is_archive_name(name: str) -> bool:
    """Return whether a file name is of the kind made here; other files are left alone."""
    return _ARCHIVE_NAME.match(name) is not None


def _shorten_id(id: str, has_title: bool) -> str:
    generated = GENERATED_ID.fullmatch(id)
    if generated:
        return generated[4]
    if _UUID.fullmatch(id):
        return id[:8].lower() if has_title else id.lower()
    return slugify(id, _MAX_ID)


def slugify(text: str, length: int) -> str:
    """Return words joined by hyphens, safe in file names and shells."""
    words = re.sub(r"[^\w]+|_+", "-", unicodedata.normalize("NFKC", text)).lower()
    return words.encode("utf-8", "ignore")[:length].decode("utf-8", "ignore").strip("-")
