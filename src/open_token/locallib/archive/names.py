"""File names of archived conversations: readable, portable and unique."""

import re
import unicodedata
from collections.abc import Callable
from itertools import count

GENERATED_ID = re.compile(r"conv_([0-9]{4})([0-9]{2})([0-9]{2})_([0-9a-f]{8})")
"""An id that no agent gave: it holds a day and a hash of the source."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MADE_NAME = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|undated)_")
_TITLE, _ID = 60, 40


def choose_day(id: str, *moments: str | None) -> str:
    """Return the day of a conversation: of the first known moment, else the one in its id."""
    made = GENERATED_ID.fullmatch(id)
    days = [
        moments[0],
        "-".join(made.groups()[:3]) if made and made[1] != "0000" else None,
        *moments[1:],
    ]
    return next((day[:10] for day in days if day and _DAY.match(day)), "undated")


def choose_file_name(
    day: str, title: str | None, id: str, suffix: str, is_free: Callable[[str], bool]
) -> str:
    """Return day, title and start of the id, with a number if that name is taken."""
    stem = "_".join(
        part for part in (day, slugify(title or "", _TITLE), _short(id, bool(title))) if part
    )
    names = (
        f"{stem}.{suffix}" if number == 1 else f"{stem}-{number}.{suffix}" for number in count(1)
    )
    return next(filter(is_free, names))


def is_archive_name(name: str) -> bool:
    """Return whether a file name is of the kind made here; other files are left alone."""
    return _MADE_NAME.match(name) is not None


def _short(id: str, titled: bool) -> str:
    if made := GENERATED_ID.fullmatch(id):
        return made[4]
    if _UUID.fullmatch(id):
        return id[:8].lower() if titled else id.lower()
    return slugify(id, _ID)


def slugify(text: str, length: int) -> str:
    """Return words joined by hyphens, safe in file names and shells."""
    kept = re.sub(r"[^\w]+|_+", "-", unicodedata.normalize("NFKC", text)).lower()
    return kept.encode("utf-8", "ignore")[:length].decode("utf-8", "ignore").strip("-")
