"""Timestamps in RFC 3339 and UTC; a timestamp without a zone is never guessed."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_UTC = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z", re.ASCII)
_ANY = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(\.\d+)? ?([Zz]|[+-]\d\d:?\d\d)",
    re.ASCII,
)
_AGE = re.compile(r"([0-9]{1,6})(min|h|d|w)")
_UNIT_SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 604800}
# In UTC, but without a zone, which would only make calculations slower.
_EPOCH = datetime(1970, 1, 1)


def to_utc(value: object) -> str | None:
    """Convert a timestamp with a zone to RFC 3339 in UTC, keeping its digits; otherwise None."""
    if not isinstance(value, str):
        return None
    if _UTC.fullmatch(value):
        return value if _is_date(value[:10]) else None
    match = _ANY.fullmatch(value)
    if not match:
        return None
    day, clock, fraction, zone = match.groups()
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
def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def from_epoch(value: object, unit: float = 1.0) -> str | None:
    """Convert a time since 1970, in seconds or the given unit, to RFC 3339; None if out of range."""
    if type(value) is not int and type(value) is not float:
        return None
    try:
        moment = _EPOCH + timedelta(0, 0, round(value * unit * 1_000_000))
    except (OverflowError, ValueError):
        return None
    return _format(moment)


def to_epoch_ms(value: object) -> int | None:
    """Convert a timestamp in UTC to milliseconds since 1970; None if it has a finer fraction."""
    if not isinstance(value, str) or not _UTC.fullmatch(value) or not _is_date(value[:10]):
        return None
    fraction = value[20:-1].ljust(3, "0")
    milliseconds, finer = fraction[:3], fraction[3:]
    if finer.strip("0"):
        return None
    # Integers, so that nothing is rounded.
    since_epoch = datetime.fromisoformat(value[:19]) - _EPOCH
    seconds = since_epoch // timedelta(seconds=1)
    return seconds * 1000 + int(milliseconds)


def format_utc(moment: datetime) -> str:
    """Format a datetime with a zone as RFC 3339 in UTC, with a fraction only if it has one."""
    return _format(moment.astimezone(UTC).replace(tzinfo=None))


def _format(moment: datetime) -> str:
    text = moment.isoformat()
    if moment.microsecond and moment.microsecond % 1000 == 0:
        text = text[:-3]
    return f"{text}Z"


def parse_moment(text: str, now: float, *, is_end: bool = False) -> float | None:
    """Parse an age (2d), a local day or a time with its zone to seconds since 1970.

    `is_end` includes the whole day or second. Returns None if it is none of these.
    """
    age = _AGE.fullmatch(text)
    if age:
        return now - int(age[1]) * _UNIT_SECONDS[age[2]]
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            day = datetime.fromisoformat(text) + timedelta(days=1 if is_end else 0)
            return day.astimezone().timestamp()
        utc = to_utc(text)
        if utc is not None:
            return datetime.fromisoformat(utc).timestamp() + (1 if is_end else 0)
    except (ValueError, OverflowError):
        pass
    return None
