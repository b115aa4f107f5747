"""The page of runtime coverage is true: what it names exists, and no format with several conversations is left out."""

import re

import pytest

from coverage_pages import Row, ascend, check, is_test, page, rows
from open_token.readers import NAMES, load

FORMAT = re.compile(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \|$", re.MULTILINE)


ROWS = rows("runtime", "R")
FORMATS = dict(FORMAT.findall(page("runtime").read_text(encoding="utf-8")))


def test_numbers_are_unique_and_ascend() -> None:
    assert len(ROWS) > 30
    assert ascend([row.number for row in ROWS], "R")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    check(row)


def test_every_format_that_holds_several_is_walked() -> None:
    assert set(FORMATS) == {name for name in NAMES if hasattr(load(name), "conversations")}
    assert [test for test in FORMATS.values() if not is_test(test)] == []
