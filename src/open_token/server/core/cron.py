"""Cron expressions in a time zone, with correct handling of daylight saving time.

Each slot occurs once; one that falls into the gap of a clock change is due right after it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from open_token.server.errors import bad_request

_MAX_LENGTH = 200
_FIELDS = 5
_SHORTEST_INTERVAL = timedelta(minutes=1)
_LARGEST_CLOCK_CHANGE = timedelta(hours=3)


@dataclass(frozen=True)
class Cron:
    """A cron expression of five fields, and its time zone."""

    line: str
    zone: tzinfo

    def next_slot(self, moment: datetime) -> datetime | None:
        """Return the first slot after a moment; None when there is none within fifty years."""
        return next(self.slots(moment), None)

    def slots(self, moment: datetime) -> Iterator[datetime]:
        """Yield the slots after a moment in order, in UTC."""
        previous = moment.astimezone(UTC)
        try:
            for slot in CronSim(self.line, moment.astimezone(self.zone)):
                # In the repeated hour the first result may be before the moment, because the slot
                # was due in the first of the two hours.
                slot_utc = slot.astimezone(UTC)
                if slot_utc > previous:
                    previous = slot_utc
                    yield slot_utc
        except OverflowError:
            return

    def latest_slot(self, due: datetime, now: datetime) -> datetime:
        """Return the latest slot that is not after `now`; `due` is the earliest candidate."""
        if now - due < _SHORTEST_INTERVAL:
            return due
        # Start late enough to find slots of the first of two repeated hours.
        start = (now + _LARGEST_CLOCK_CHANGE).astimezone(self.zone)
        try:
            for slot in CronSim(self.line, start, reverse=True):
                slot_utc = slot.astimezone(UTC)
                if slot_utc <= now:
                    return max(slot_utc, due)
        except OverflowError:
            return due
        return due


def parse_cron(line: str, zone: str) -> Cron:
    """Parse a cron expression and a time zone; raises ApiError when one of them is invalid."""
    if len(line) > _MAX_LENGTH or len(line.split()) != _FIELDS:
        raise bad_request(
            "cron: five fields required: minute, hour, day of month, month, day of week",
            "bad_cron",
        )
    cron = Cron(line, parse_timezone(zone))
    try:
        slot = cron.next_slot(datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as fault:
        raise bad_request(f"cron: {str(fault).lower()}", "bad_cron") from None
    if slot is None:
        raise bad_request("cron: matches no date", "bad_cron")
    return cron


@lru_cache(maxsize=1024)
def parse_timezone(name: str) -> tzinfo:
    """Return a time zone by its IANA name."""
    if name == "UTC":
        return UTC
    try:
        if not name or len(name) > _MAX_LENGTH or not name.isascii():
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise bad_request(
            "timezone: unknown time zone; use an IANA name such as Europe/Berlin", "bad_timezone"
        ) from None
