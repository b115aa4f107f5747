"""What the tests of coverage pages share: the rows of a page, and whether the places and tests it
names exist."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"
CHECKED = ("read", "test added", "mended")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Row(NamedTuple):
    """One clause: where it is done, which tests show it, and what came of reading and trying it."""

    number: str
    places: list[str]
    tests: list[str]
    checked: str


def page(name: str) -> Path:
    return ROOT / "docs" / "reference" / f"{name}-coverage.md"


def rows(name: str, letter: str) -> list[Row]:
    """The rows of a page whose numbers begin with a letter."""
    found = []
    for line in page(name).read_text(encoding="utf-8").splitlines():
        if line.startswith(f"| {letter}"):
            number, _, places, tests, checked = line.strip("| ").split(" | ")
            found.append(Row(number, quoted(places), quoted(tests), checked))
    return found


def quoted(cell: str) -> list[str]:
    return cell.strip("`").split("`, `")


def ascend(numbers: list[str], letter: str) -> bool:
    """Whether numbers run from 1 without a gap."""
    return numbers == [f"{letter}{number}" for number in range(1, len(numbers) + 1)]


def check(row: Row) -> None:
    """What a row names is there."""
    assert row.checked in CHECKED
    assert [place for place in row.places if not exists(place)] == []
    assert [test for test in row.tests if not is_test(test)] == []


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
