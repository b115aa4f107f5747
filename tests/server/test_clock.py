"""Time as the store wants it, and fresh names."""

from datetime import UTC, datetime, timedelta, timezone

from open_token.server.clock import Clock, format_timestamp, parse_timestamp


def test_a_moment_is_written_in_utc_with_milliseconds() -> None:
    there = datetime(2026, 3, 1, 10, 0, 0, 4_999, tzinfo=timezone(timedelta(hours=2)))
    assert format_timestamp(there) == "2026-03-01T08:00:00.004Z"
    assert parse_timestamp(format_timestamp(there)) == datetime(
        2026, 3, 1, 8, 0, 0, 4_000, tzinfo=UTC
    )


def test_times_compare_as_text() -> None:
    first = datetime(2026, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert format_timestamp(first) < format_timestamp(first + timedelta(milliseconds=1))


def test_a_clock_can_be_reported_what_time_it_is() -> None:
    clock = Clock(lambda: datetime(2026, 1, 2, tzinfo=UTC), lambda length: "x" * length)
    assert clock.now() == "2026-01-02T00:00:00.000Z"
    assert clock.now(plus=90) == "2026-01-02T00:01:30.000Z"
    assert clock.name("sess") == "sess_" + "x" * 16


def test_names_are_fresh() -> None:
    clock = Clock()
    assert len({clock.name("turn") for _ in range(1000)}) == 1000
