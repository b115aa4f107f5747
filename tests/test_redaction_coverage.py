"""The page of redaction coverage is true: what it names exists."""

import pytest

from coverage_pages import Row, ascend, check, rows

ROWS = rows("redaction", "R")


def test_numbers_are_unique_and_ascend() -> None:
    assert len(ROWS) > 90
    assert ascend([row.number for row in ROWS], "R")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    check(row)
