"""The page of runtime coverage is true: what it names exists, and no format with several conversations is left out."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from open_token.readers import NAMES, load
from test_spec_coverage import ROOT, exists, is_test

PAGE = ROOT / "docs" / "reference" / "runtime-coverage.md"
FORMAT = re.compile(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \|$", re.MULTILINE)


class Row(NamedTuple):
    """One clause."""

    number: str
    places: list[str]
    tests: list[str]


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| R"):
            number, _, places, tests, checked = line.strip("| ").split(" | ")
            assert checked in ("read", "test added", "mended")
            yield Row(number, places.strip("`").split("`, `"), tests.strip("`").split("`, `"))


ROWS = list(rows())
FORMATS = dict(FORMAT.findall(PAGE.read_text(encoding="utf-8")))


def test_numbers_are_unique_and_ascend() -> None:
    assert len(ROWS) > 30
    assert [row.number for row in ROWS] == [f"R{number}" for number in range(1, len(ROWS) + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    assert row.places
    assert [place for place in row.places if not exists(place)] == []
    assert row.tests
    assert [test for test in row.tests if not is_test(test)] == []


def test_every_format_that_holds_several_is_walked() -> None:
    assert set(FORMATS) == {name for name in NAMES if hasattr(load(name), "conversations")}
    assert [test for test in FORMATS.values() if not is_test(test)] == []
