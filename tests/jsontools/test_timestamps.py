"""Timestamps become UTC or nothing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.jsontools.timestamps import format_utc, from_epoch, to_epoch_ms, to_utc


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"),
        ("2026-01-31T00:00:00.123Z", "2026-01-31T00:00:00.123Z"),
        ("2026-01-31T01:30:00+01:30", "2026-01-31T00:00:00Z"),
        ("2026-01-31T01:30:00.5+0130", "2026-01-31T00:00:00.5Z"),
        ("2026-01-30 16:00:00-08:00", "2026-01-31T00:00:00Z"),
        ("2026-01-31T00:00Z", "2026-01-31T00:00:00Z"),
        ("2026-01-31T00:00:00.123456789Z", "2026-01-31T00:00:00.123456789Z"),
    ],
)
def test_zones_are_converted_and_digits_kept(given_text: str, expected: str) -> None:
    assert to_utc(given_text) == expected


@pytest.mark.spec("event-timestamp")
@pytest.mark.parametrize(
    "value",
    [
        "2026-01-31T00:00:00",
        "2026-02-30T00:00:00Z",
        "yesterday",
        "",
        None,
        7,
        "0001-01-01T00:00:00+10:00",
        "２０26-01-31T00:00:00Z",
    ],
)
def test_what_is_not_a_moment_is_nothing(value: object) -> None:
    assert to_utc(value) is None


def test_epochs() -> None:
    assert from_epoch(0) == "1970-01-01T00:00:00Z"
    assert from_epoch(1735689600123, 0.001) == "2025-01-01T00:00:00.123Z"
    assert from_epoch(1735689600.5) == "2025-01-01T00:00:00.500Z"
    assert from_epoch(True) is None
    assert from_epoch(10**30) is None
    assert from_epoch(float("nan")) is None


@given(
    st.datetimes(
        timezones=st.just(timezone(timedelta(hours=5, minutes=30))), min_value=datetime(1900, 1, 1)
    )
)
def test_what_is_formatted_reads_as_itself(moment: datetime) -> None:
    text = format_utc(moment)
    assert to_utc(text) == text
    assert datetime.fromisoformat(text) == moment.astimezone(UTC)


@given(st.text())
def test_any_text_is_safe(text: str) -> None:
    made = to_utc(text)
    assert made is None or made.endswith("Z")


@given(st.integers(-(10**12), 10**13))
def test_milliseconds_there_and_back(moment: int) -> None:
    assert to_epoch_ms(from_epoch(moment, 0.001)) == moment


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        "",
        "2026-01-01",
        "2026-01-01T00:00:00.0001Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T00:00:00+01:00",
    ],
)
def test_what_is_no_time_in_milliseconds(value: object) -> None:
    assert to_epoch_ms(value) is None
