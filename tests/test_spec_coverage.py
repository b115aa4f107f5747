"""The page of spec coverage is true: what it names exists, and no section of the spec is left
out."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from coverage_pages import ROOT, ascend, exists, is_test, page, quoted
from open_token.cli.validate import CHECKS

PAGE = page("spec")
SPEC = ROOT.parent / "shared" / "spec" / "open-token-0.1.md"
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)


class Row(NamedTuple):
    """One rule of the spec."""

    number: str
    rule: str
    places: list[str]
    checks: list[str]
    tests: list[str]


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| S"):
            number, rule, places, checks, tests = line.strip("| ").split(" | ")
            known = [] if checks == "–" else checks.split(", ")
            yield Row(number, rule, quoted(places), known, quoted(tests))


ROWS = list(rows())


def test_there_are_rules() -> None:
    assert len(ROWS) > 100


def test_numbers_are_unique_and_ascend() -> None:
    assert ascend([row.number for row in ROWS], "S")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    assert row.places
    assert [place for place in row.places if not exists(place)] == []
    assert [check for check in row.checks if check not in CHECKS] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_a_test_shows_every_rule(row: Row) -> None:
    assert row.tests
    assert [test for test in row.tests if not is_test(test)] == []


def test_every_section_of_the_spec_is_walked() -> None:
    if not SPEC.is_file():
        pytest.skip("the spec is not beside this checkout")
    assert HEADING.findall(PAGE.read_text(encoding="utf-8")) == HEADING.findall(
        SPEC.read_text(encoding="utf-8")
    )


def test_what_is_not_there_is_noticed() -> None:
    assert exists("draft.Draft.tool_use")
    assert exists("readers")
    assert exists("model.KINDS")
    assert not exists("draft.Draft.nothing")
    assert not exists("nothing.at_all")
    assert not exists("rules/nothing.toml")
