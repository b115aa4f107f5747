"""When a cron line is due, in a zone with summer time: each slot once, what falls into the gap
right after it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from open_token.server.refusals import bad

_LONGEST = 200
_FIELDS = 5
_SHORTEST = timedelta(minutes=1)
_LONGEST_CHANGE = timedelta(hours=3)


@dataclass(frozen=True)
class Cron:
    """A cron line of five fields and the zone in which it is read."""

    line: str
    zone: tzinfo

    def after(self, moment: datetime) -> datetime | None:
        """The first slot behind a moment; None when there is none for fifty years."""
        return next(self.slots(moment), None)

    def slots(self, moment: datetime) -> Iterator[datetime]:
        """The slots behind a moment, each once and in order, in UTC."""
        last = moment.astimezone(UTC)
        try:
            for slot in CronSim(self.line, moment.astimezone(self.zone)):
                # In the hour that comes twice the first answer may lie before the moment: it was
                # due in the first one.
                if slot.astimezone(UTC) > last:
                    last = slot.astimezone(UTC)
                    yield last
        except OverflowError:
            return

    def last(self, due: datetime, now: datetime) -> datetime:
        """The newest slot that is not after `now`; `due` is one of them."""
        if now - due < _SHORTEST:
            return due
        # The walk back begins late enough to see, in the hour that comes twice, what was due in the
        # first one.
        try:
            for slot in CronSim(
                self.line, (now + _LONGEST_CHANGE).astimezone(self.zone), reverse=True
            ):
                found = slot.astimezone(UTC)
                if found <= now:
                    return max(found, due)
        except OverflowError:
            return due
        return due


def cron_of(line: str, zone: str) -> Cron:
    """A cron line and a zone by their words; Refused when one of them is none."""
    if len(line) > _LONGEST or len(line.split()) != _FIELDS:
        raise bad(
            "cron: five fields are needed: minute, hour, day of month, month, day of week",
            "bad_cron",
        )
    cron = Cron(line, zone_of(zone))
    try:
        slot = cron.after(datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as fault:
        raise bad(f"cron: {str(fault).lower()}", "bad_cron") from None
    if slot is None:
        raise bad("cron: no such day ever comes", "bad_cron")
    return cron


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """A time zone by its name."""
    if name == "UTC":
        return UTC
    try:
        if not name or len(name) > _LONGEST or not name.isascii():
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise bad(
            "timezone: no zone of that name is known; it reads as in Europe/Berlin", "bad_timezone"
        ) from None
