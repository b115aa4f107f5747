"""The page of discovery, live and archive coverage is true: what it names exists."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from test_spec_coverage import ROOT, exists, is_test

PAGE = ROOT / "docs" / "reference" / "discovery-coverage.md"


class Row(NamedTuple):
    """One clause."""

    number: str
    places: list[str]
    tests: list[str]
    checked: str


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| D"):
            number, _, places, tests, checked = line.strip("| ").split(" | ")
            yield Row(number, places.strip("`").split("`, `"), tests.strip("`").split("`, `"), checked)


ROWS = list(rows())


def test_numbers_are_unique_and_ascend() -> None:
    assert len(ROWS) > 40
    assert [row.number for row in ROWS] == [f"D{number}" for number in range(1, len(ROWS) + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    assert row.checked in ("read", "test added", "mended")
    assert [place for place in row.places if not exists(place)] == []
    assert [test for test in row.tests if not is_test(test)] == []
