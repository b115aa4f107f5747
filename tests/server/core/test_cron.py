"""Cron lines in zones with summer time, beside what a person would say."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from open_token.server.core.cron import parse_cron
from open_token.server.errors import ApiError


def day(line: str, zone: str, date: tuple[int, int, int]) -> list[datetime]:
    """The slots of one local day, as UTC."""
    here = ZoneInfo(zone)
    start = datetime(*date, tzinfo=here).astimezone(UTC)
    end = (datetime(*date, tzinfo=here) + timedelta(days=1)).astimezone(UTC)
    found = []
    for slot in parse_cron(line, zone).slots(start - timedelta(milliseconds=1)):
        if slot >= end:
            return found
        found.append(slot)
    return found


# Both changes of 2026 in five zones; on Lord Howe Island it is half an hour.
CHANGES = [
    ("America/New_York", (2026, 3, 8), (2026, 11, 1), 60),
    ("Europe/Berlin", (2026, 3, 29), (2026, 10, 25), 60),
    ("Australia/Lord_Howe", (2026, 10, 4), (2026, 4, 5), 30),
    ("America/Sao_Paulo", (2018, 11, 4), (2018, 2, 17), 60),
    ("Africa/Cairo", (2026, 4, 24), (2026, 10, 29), 60),
]


@pytest.mark.parametrize(("zone", "gap", "again", "minutes"), CHANGES)
def test_by_the_clock_on_the_wall_each_day_has_one(
    zone: str, gap: tuple[int, int, int], again: tuple[int, int, int], minutes: int
) -> None:
    for date in (gap, again):
        for hour in (0, 1, 2, 3, 23):
            (slot,) = day(f"15 {hour} * * *", zone, date)
            local = slot.astimezone(ZoneInfo(zone))
            late = (local.hour * 60 + local.minute) - (hour * 60 + 15)
            assert 0 <= late <= 60


@pytest.mark.parametrize(("zone", "gap", "again", "minutes"), CHANGES)
def test_by_elapsed_time_none_is_left_out_or_doubled(
    zone: str, gap: tuple[int, int, int], again: tuple[int, int, int], minutes: int
) -> None:
    for date, change in ((gap, -minutes), (again, minutes)):
        slots = day("*/15 * * * *", zone, date)
        assert len(slots) == (24 * 60 + change) // 15
        assert {later - slot for slot, later in itertools.pairwise(slots)} == {
            timedelta(minutes=15)
        }


def test_the_gap_and_the_hour_that_comes_twice() -> None:
    assert day("30 1 * * *", "America/New_York", (2026, 11, 1)) == [
        datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    ]
    assert day("30 2 * * *", "America/New_York", (2026, 3, 8)) == [
        datetime(2026, 3, 8, 7, 0, tzinfo=UTC)
    ]


def test_in_the_second_of_two_hours_it_was_due_in_the_first() -> None:
    cron = parse_cron("30 1 * * *", "America/New_York")
    second = datetime(2026, 11, 1, 6, 10, tzinfo=UTC)  # 01:10 once more
    assert cron.next_slot(second) == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    assert cron.latest_slot(datetime(2026, 10, 1, tzinfo=UTC), second) == datetime(
        2026, 11, 1, 5, 30, tzinfo=UTC
    )


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("line", ["* * * * *", "30 1 * * *", "0 */6 * * *", "0 9 1 * *"])
def test_the_newest_slot_is_the_one_before_the_next(line: str, zone: str) -> None:
    cron, start = parse_cron(line, zone), datetime(2026, 10, 31, tzinfo=UTC)
    slots = list(itertools.islice(cron.slots(start), 40))
    for slot, later in itertools.pairwise(slots):
        for now in (slot, slot + timedelta(milliseconds=1), later - timedelta(milliseconds=1)):
            assert cron.latest_slot(slots[0], now) == slot
            assert cron.next_slot(now) == later


def test_never_earlier_than_what_is_due() -> None:
    due = datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert parse_cron("0 8 * * *", "UTC").latest_slot(due, due + timedelta(hours=1)) == due


@pytest.mark.parametrize(
    "line",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "x * * * *",
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "*/0 * * * *",
        "1" * 300,
    ],
)
def test_what_is_no_cron_line_is_said(line: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_cron(line, "UTC")
    assert (caught.value.status, caught.value.code) == (422, "bad_cron")


@pytest.mark.parametrize(
    "zone", ["", "Nowhere/At_All", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 999, "größe"]
)
def test_what_is_no_zone_is_said(zone: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_cron("* * * * *", zone)
    assert (caught.value.status, caught.value.code) == (422, "bad_timezone")
    assert zone[:4] not in caught.value.detail or not zone
