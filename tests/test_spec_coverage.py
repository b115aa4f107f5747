"""The page of spec coverage is true: what it names exists, and no section of the spec is left out."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from open_token.cli.validate import CHECKS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"
PAGE = ROOT / "docs" / "reference" / "spec-coverage.md"
SPEC = ROOT.parent / "shared" / "spec" / "open-token-0.1.md"
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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
            yield Row(number, rule, places.strip("`").split("`, `"), known, tests.strip("`").split("`, `"))


ROWS = list(rows())


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def exists(place: str) -> bool:
    """Whether a room, a module, a name in it, or a file of rules is there."""
    if "/" in place:
        return (SOURCE / place).is_file()
    names = place.split(".")
    for end in range(len(names), 0, -1):
        path = SOURCE.joinpath(*names[:end])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.is_file():
            return has(tree_of(file).body, names[end:])
    return False


def has(body: list[ast.stmt], names: list[str]) -> bool:
    """Whether a chain of names is defined, each in the one before."""
    if not names:
        return True
    for node in body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and node.name == names[0]:
            return has(node.body, names[1:])
        if isinstance(node, ast.Assign | ast.AnnAssign) and names[0] in named(node):
            return len(names) == 1
    return False


def named(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def is_test(name: str) -> bool:
    """Whether a test is there, told as `path::name`."""
    path, _, test = name.partition("::")
    return test.startswith("test_") and test in functions_in(ROOT / path)


@cache
def functions_in(file: Path) -> set[str]:
    tree = tree_of(file) if file.is_file() else ast.Module()
    return {node.name for node in ast.walk(tree) if isinstance(node, FUNCTIONS)}


def test_there_are_rules() -> None:
    assert len(ROWS) > 100


def test_numbers_are_unique_and_ascend() -> None:
    assert [row.number for row in ROWS] == [f"S{n}" for n in range(1, len(ROWS) + 1)]


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
    assert HEADING.findall(PAGE.read_text(encoding="utf-8")) == HEADING.findall(SPEC.read_text(encoding="utf-8"))


def test_what_is_not_there_is_noticed() -> None:
    assert exists("draft.Draft.tool_use")
    assert exists("readers")
    assert exists("model.KINDS")
    assert not exists("draft.Draft.nothing")
    assert not exists("nothing.at_all")
    assert not exists("rules/nothing.toml")
