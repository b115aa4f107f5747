"""The pages of coverage are true: what they name exists."""

import pytest

from coverage_pages import Row, ascend, check, rows

LEAST = {("discovery", "D"): 40, ("redaction", "R"): 90, ("runtime", "R"): 30}
"""So many rows a page has at least, by its name and the letter of its rows."""
ROWS = {page: rows(*page) for page in LEAST}


@pytest.mark.parametrize("page", LEAST, ids=lambda page: page[0])
def test_numbers_are_unique_and_ascend(page: tuple[str, str]) -> None:
    assert len(ROWS[page]) > LEAST[page]
    assert ascend([row.number for row in ROWS[page]], page[1])


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{name}-{row.number}")
        for (name, _), some in ROWS.items()
        for row in some
    ],
)
def test_what_a_row_names_is_there(row: Row) -> None:
    check(row)
