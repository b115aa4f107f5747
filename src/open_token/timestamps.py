"""Timestamps become RFC 3339 in UTC or are left out; nothing is ever guessed."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_UTC = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z", re.ASCII)
_ANY = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(\.\d+)? ?([Zz]|[+-]\d\d:?\d\d)",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)
"""In UTC, like all that is counted from it; without a zone, which would only make it slow."""


def to_utc(value: object) -> str | None:
    """A timestamp string with a zone as RFC 3339 in UTC, keeping the digits it has; None when it is
    not one."""
    if not isinstance(value, str):
        return None
    if _UTC.fullmatch(value):
        return value if _is_day(value[:10]) else None
    found = _ANY.fullmatch(value)
    if not found:
        return None
    day, clock, fraction, zone = found.groups()
    if len(clock) == 5:
        clock += ":00"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}")
        if zone not in "Zz":
            sign = 1 if zone[0] == "+" else -1
            moment -= sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    except (OverflowError, ValueError):
        return None
    return f"{moment.isoformat()}{(fraction or '')[:10]}Z"


@lru_cache(64)
def _is_day(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def from_epoch(value: object, unit: float = 1.0) -> str | None:
    """Seconds (or another unit, as a part of a second) since 1970 as RFC 3339 in UTC; None when out
    of range."""
    if type(value) is not int and type(value) is not float:
        return None
    try:
        moment = _EPOCH + timedelta(0, 0, round(value * unit * 1_000_000))
    except (OverflowError, ValueError):
        return None
    return _formatted(moment)


def to_epoch_ms(value: object) -> int | None:
    """A timestamp in UTC as milliseconds since 1970, when it has no finer part."""
    if not isinstance(value, str) or not _UTC.fullmatch(value) or not _is_day(value[:10]):
        return None
    fraction = value[20:-1].ljust(3, "0")
    if fraction[3:].strip("0"):
        return None
    seconds = (datetime.fromisoformat(value[:19]) - _EPOCH) // timedelta(seconds=1)
    return seconds * 1000 + int(fraction[:3])


def format_utc(moment: datetime) -> str:
    """A moment with a zone as RFC 3339 in UTC, with milliseconds or microseconds only when it has
    them."""
    return _formatted(moment.astimezone(UTC).replace(tzinfo=None))


def _formatted(moment: datetime) -> str:
    text = moment.isoformat()
    return f"{text[:-3]}Z" if moment.microsecond and not moment.microsecond % 1000 else f"{text}Z"
