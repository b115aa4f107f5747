"""The page of discovery, live and archive coverage is true: what it names exists."""

import pytest

from coverage_pages import Row, ascend, check, rows

ROWS = rows("discovery", "D")


def test_numbers_are_unique_and_ascend() -> None:
    assert len(ROWS) > 40
    assert ascend([row.number for row in ROWS], "D")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    check(row)
